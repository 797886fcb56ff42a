// SPDX-License-Identifier: Apache-2.0
// Runs one OpenMP kernel: first the steps whose checksum is printed, then steps for so many seconds.
//   KERNEL [--size N] [--seconds S] [--watch] [--check-steps N]
//   --list          of each kernel: name, size, unit, "exact" or "rounded", steps that make its checksum
//   --watch         prints us_per_step= every 20 ms, not only at the end
//   --check-steps   how many steps make the checksum, instead of some 20 ms of them
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

static const struct kernel* const kernels[] = {&parallel_kernel,  &stencil_kernel,   &sparse_kernel,
                                               &reduction_kernel, &irregular_kernel, &fine_kernel,
                                               &tiny_kernel,     &mixed_kernel};
enum { kernel_count = sizeof kernels / sizeof *kernels };
static const double batch_seconds = 0.02;

void* get_memory(size_t count, size_t size) {
    void* memory = calloc(count, size);
    if (memory == NULL) {
        fputs("no memory\n", stderr);
        exit(1);
    }
    return memory;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int list(void) {
    for (int i = 0; i < kernel_count; ++i)
        printf("%s %ld %s %s %d\n", kernels[i]->name, kernels[i]->size, kernels[i]->unit,
               kernels[i]->exact ? "exact" : "rounded", kernels[i]->check_steps);
    return 0;
}

static int usage(void) {
    fputs("usage: KERNEL [--size N] [--seconds S] [--watch] [--check-steps N] | --list\n", stderr);
    return 2;
}

// Prints the mean over all batches, and the least batch.
static void run(const struct kernel* kernel, double seconds, int watch) {
    const double begin = now();
    double last = begin, least = 0;
    long steps = 0, batch = 0;
    while (last - begin < seconds) {
        kernel->step();
        ++batch;
        const double time = now();
        if (time - last < batch_seconds) continue;
        const double each = (time - last) / (double)batch;
        if (watch) {
            printf("us_per_step=%.4f\n", 1e6 * each);
            fflush(stdout);
        }
        if (least == 0 || each < least) least = each;
        steps += batch;
        batch = 0;
        last = time;
    }
    if (steps > 0)
        printf("steps=%ld\nleast_us_per_step=%.4f\nmean_us_per_step=%.4f\n", steps, 1e6 * least,
               1e6 * (last - begin) / (double)steps);
}

int main(int count, char** words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) return list();
    const struct kernel* kernel = NULL;
    for (int i = 0; i < kernel_count && count > 1; ++i)
        if (strcmp(kernels[i]->name, words[1]) == 0) kernel = kernels[i];
    if (kernel == NULL) return usage();
    long size = kernel->size;
    double seconds = 1;
    int watch = 0;
    long check_steps = kernel->check_steps;
    for (int i = 2; i < count; ++i) {
        if (strcmp(words[i], "--watch") == 0)
            watch = 1;
        else if (strcmp(words[i], "--size") == 0 && i + 1 < count)
            size = strtol(words[++i], NULL, 10);
        else if (strcmp(words[i], "--seconds") == 0 && i + 1 < count)
            seconds = strtod(words[++i], NULL);
        else if (strcmp(words[i], "--check-steps") == 0 && i + 1 < count)
            check_steps = strtol(words[++i], NULL, 10);
        else
            return usage();
    }
    if (size < 1) return usage();
    kernel->setup(size);
    for (long i = 0; i < check_steps; ++i) kernel->step();
    printf("kernel=%s\nsize=%ld\nchecksum=%.17g\n", kernel->name, size, kernel->checksum());
    fflush(stdout);
    // A run with the same words that ends sooner: a profile goes by them.
    const char* const fewer = getenv("KERNEL_SECONDS");
    if (fewer != NULL) seconds = strtod(fewer, NULL);
    run(kernel, seconds, watch);
    return 0;
}
