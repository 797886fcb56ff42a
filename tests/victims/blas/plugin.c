/* SPDX-License-Identifier: Apache-2.0 */
/* An object that calls BLAS, with a library of its own. */
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
int fake_own_calls(void);
void openblas_set_num_threads(int);
int openblas_get_num_threads(void);

#ifdef TAIL_CALL
/* The hook's return address is not here. */
void plugin_gemm(const char* a, const char* b, const int* m, const int* n, const int* k, const double* x,
                 const double* y, const int* l, const double* z, const int* p, const double* q, double* r,
                 const int* s) {
    dgemm_(a, b, m, n, k, x, y, l, z, p, q, r, s);
}
#else
static const int size = 700;
static const double one = 1.0;
static double c[4];

int plugin_gemm(void) {
    dgemm_("N", "N", &size, &size, &size, &one, c, &size, c, &size, &one, c, &size);
    return fake_own_calls();
}
#endif
int plugin_calls(void) {
    return fake_own_calls();
}
void plugin_set(int number) {
    openblas_set_num_threads(number);
}
int plugin_get(void) {
    return openblas_get_num_threads();
}
