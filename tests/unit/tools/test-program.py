#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-check --program on programs of this test's own making, whole and broken.

usage: test-program.py BPSMPI_CHECK LIBBYTEPSMPI [NAME...]

Prints TAP. With names, only those tests run.
"""

import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import traceback

CHECK, LIBRARY = sys.argv[1:3]
FOLDER = None  # of main()
HOST = socket.gethostname()
LOADER = b"/lib64/ld-linux-x86-64.so.2"
EXEC, DYN = 2, 3
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_FLAGS_1 = 1, 5, 10, 0x6ffffffb
SYMTAB, STRTAB = 2, 3

with open("/proc/self/exe", "rb") as own:
    IDENT = own.read(16)
    MACHINE = struct.unpack("<2xH", own.read(4))[0]
if IDENT[4:6] != b"\x02\x01":
    print("1..0 # SKIP the programs made here are of 64 bits, little endian")
    sys.exit(0)


class Wrong(Exception):
    pass


def check(condition, what=""):
    if not condition:
        raise Wrong(what)


def elf(kind=DYN, loader=LOADER, needed=(), flags=0, own=(), others=(), machine=MACHINE,
        bits=64):
    """A program's bytes: what a loader reads, then symbols and sections behind that."""
    names = b"\0"
    places = {}
    for name in (*needed, *own, *others):
        places[name] = len(names)
        names += name.encode() + b"\0"
    has_dynamic = needed or flags
    n_segments = 1 + bool(loader) + bool(has_dynamic)
    at = 64 + 56 * n_segments
    loader_at = at
    at += len(loader) + 1 if loader else 0
    names_at = at
    at = (at + len(names) + 7) & ~7
    dynamic = [(DT_NEEDED, places[x]) for x in needed]
    dynamic += [(DT_STRTAB, names_at), (DT_STRSZ, len(names)), (DT_FLAGS_1, flags), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *x) for x in dynamic) if has_dynamic else b""
    end = at + len(dynamic)
    segments = [(PT_LOAD, 0, end)]
    segments += [(PT_INTERP, loader_at, len(loader) + 1)] if loader else []
    segments += [(PT_DYNAMIC, at, len(dynamic))] if has_dynamic else []
    symbols = bytes(24)
    for name in (*own, *others):
        symbols += struct.pack("<IBBHQQ", places[name], 0x12, 0, 1 if name in own else 0,
                               0, 0)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, SYMTAB, 0, 0, end, len(symbols), 2, 1, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, STRTAB, 0, 0, names_at, len(names), 0, 0, 1,
                            0)
    head = IDENT[:4] + bytes([2 if bits == 64 else 1]) + IDENT[5:]
    head += struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 64, 64, end + len(symbols), 0,
                        64, 56, n_segments, 64, 3, 0)
    body = head + b"".join(struct.pack("<IIQQQQQQ", kind, 5, at, at, at, n, n, 8)
                           for kind, at, n in segments)
    body += loader + b"\0" if loader else b""
    body += names
    return body.ljust(at, b"\0") + dynamic + symbols + sections


def put(content, name="program", mode=0o755):
    path = os.path.join(FOLDER, name)
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(path, mode)
    return path


def look(path, **env):
    """(status, what it says in one line), of output or of error."""
    done = subprocess.run([CHECK, "--program", path], env={**os.environ, **env}, text=True,
                          errors="replace", capture_output=True, timeout=10)
    check(done.returncode in (0, 1, 2), "status %d" % done.returncode)
    check((done.returncode == 2) == (done.stderr != ""), done)
    check(done.stderr.count("\n") == (done.returncode == 2), done.stderr)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def fine(path, *parts, **env):
    status, said = look(path, **env)
    check(status == 0 and said.startswith(HOST + ", program: "), said)
    check(all(x in said for x in ("LD_PRELOAD works for", *parts)), said)


def found(path, *parts):
    """One finding with these parts."""
    status, said = look(path)
    check(status == 1 and said.startswith("%s, program: %s " % (HOST, path)), said)
    check(all(said.count(x) == 1 for x in (" cost: ", " remedy: ")), said)
    check(all(x in said for x in parts), said)


def refused(path, *parts):
    status, said = look(path)
    check(status == 2 and said.startswith("bpsmpi-check: "), said)
    check(all(x in said for x in parts), said)


def test_programs_of_this_box():
    fine(os.path.realpath(sys.executable), "names no MPI library", "mpi4py")
    fine("sh", "/sh. It names no MPI library")  # in PATH


def test_an_mpi_library_is_named():
    fine(put(elf(needed=["libm.so.6", "libmpi.so.40"])), "takes MPI from libmpi.so.40")
    fine(put(elf(needed=["libmpi_mpifh.so.40"])), "takes MPI from libmpi_mpifh.so.40")
    fine(put(elf(EXEC, needed=["libmpi.so.40"])), "takes MPI from libmpi.so.40")


def test_static():
    found(put(elf(EXEC, loader=b"")), "is statically linked")
    found(put(elf(DYN, loader=b"", flags=0x08000000)), "is statically linked")


def test_mpi_in_the_program():
    mpi = ["MPI_Init", "PMPI_Init", "MPI_Allreduce", "PMPI_Allreduce"]
    found(put(elf(own=mpi)), "has MPI's functions in itself", "libmpi.a")
    found(put(elf(own=["MPI_Init"])), "has MPI's functions in itself")  # a stand-in
    # Tools that are linked to it have the one name, and call the other.
    fine(put(elf(own=["MPI_Init"], others=["PMPI_Init"], needed=["libmpi.so.40"])),
         "takes MPI from libmpi.so.40")
    fine(put(elf(own=["MPI_Initial"], others=["MPI_Init"])))


def test_rights():
    found(put(elf(), mode=0o4755), "runs with its owner's rights", "chmod ug-s ")
    found(put(elf(), mode=0o2755), "runs with its owner's rights")
    found(put(elf(EXEC, loader=b""), mode=0o4755), "is statically linked")
    if os.geteuid() == 0:
        path = put(elf())
        os.setxattr(path, "security.capability",
                    struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0))
        found(path, "has rights of its own (file capabilities)", "setcap -r " + path)


def test_other_processors():
    found(put(elf(machine=MACHINE ^ 0x80)), "is for another processor",
          "ELF machine %d, 64 bits" % (MACHINE ^ 0x80))
    found(put(elf(bits=32)), "is for another processor", "32 bits")


def test_other_libraries():
    found(put(elf(loader=b"/lib/ld-musl-x86_64.so.1")), "is built for musl")
    found(put(elf(needed=["libmpi.so.12"])), "takes MPI from libmpi.so.12", "MPICH")
    found(put(elf(needed=["libmpich.so.12"])), "takes MPI from libmpich.so.12")


def test_scripts():
    program = put(elf(needed=["libmpi.so.40"]), "prog")
    for line in (program, "%s -x" % program, "  %s\t-e" % program, "/usr/bin/env prog",
                 "/usr/bin/env -S A=1 prog -u"):
        script = put("#!%s\nprint()\n" % line, "script")
        fine(script, "%s is a script of " % script, "takes MPI from libmpi.so.40",
             PATH="/nowhere:" + FOLDER)
    fine(put("#!%s\n" % script, "outer"), "is a script of %s " % script, PATH=FOLDER)
    put(elf(EXEC, loader=b""), "prog")
    status, said = look(script, PATH=FOLDER)
    check(status == 1 and FOLDER + "/prog is statically linked" in said, said)


def refused_after(path, said_first, *parts):
    status, said = look(path)
    check(status == 2 and all(x in said for x in (said_first, *parts)), said)


def test_scripts_that_end_nowhere():
    script = os.path.join(FOLDER, "script")
    put("#!%s\n" % script, "script")
    refused_after(script, "is a script of", "too many scripts")
    put("#!/no/such/shell\n", "script")
    refused_after(script, "/no/such/shell: No such file")
    put("#!", "script")
    refused(script, "neither ELF nor a script")
    put("#!/usr/bin/env -S\n", "script")
    look(script)
    put("#!" + "/" * 5000, "script")
    look(script)


def test_what_is_no_program():
    refused(os.path.join(FOLDER, "none"), "none: No such file")
    refused(FOLDER, "no plain file")
    refused(put(b"", "empty"), "empty: it is no program")
    refused(put("print()\n", "text"), "text: it is no program")
    refused(LIBRARY, "a library or an object file")
    refused(put(elf(loader=b"")), "a library or an object file")
    refused(put(elf(1)[:64].ljust(64, b"\0")), "broken")
    fifo = os.path.join(FOLDER, "fifo")
    os.mkfifo(fifo)
    refused(fifo, "no plain file")
    refused("/dev/zero", "no plain file")


def test_programs_that_are_cut_off():
    whole = elf(needed=["libmpi.so.40"], own=["MPI_Init", "PMPI_Init"])
    symbols = len(whole) - 3 * 64 - 3 * 24
    for n in range(4, symbols, 5):
        refused(put(whole[:n]), "is broken" if n >= 4 else "")
    # What only debuggers read may be missing.
    for n in range(symbols, len(whole), 11):
        fine(put(whole[:n]), "takes MPI from libmpi.so.40")
    found(put(whole), "has MPI's functions in itself")
    with open(os.path.realpath(sys.executable), "rb") as file:
        real = file.read()
    for part in (0.001, 0.1, 0.5, 0.7):
        refused(put(real[:int(len(real) * part)]), "its end is missing")


def test_programs_that_are_broken():
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    whole = elf(needed=["libmpi.so.40"], own=["MPI_Init"], others=["PMPI_Init"])
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(4, len(broken))
            size = chance.choice((1, 2, 8))
            value = chance.choice((0, 1, 0x7f, 0xff, chance.randrange(256)))
            broken[at:at + size] = bytes([value]) * len(broken[at:at + size])
        try:
            look(put(bytes(broken)))
        except (Wrong, subprocess.TimeoutExpired) as error:
            raise Wrong("seed %d: %s" % (seed, error)) from None


def test_tables_that_are_huge():
    """A gigabyte that is not there, in a file that says so."""
    whole = bytearray(elf(needed=["libmpi.so.40"], own=["MPI_Init"]))
    struct.pack_into("<Q", whole, len(whole) - 2 * 64 + 32, 1 << 30)
    path = put(bytes(whole))
    os.truncate(path, 2 << 30)
    fine(path, "takes MPI from libmpi.so.40")
    struct.pack_into("<Q", whole, 64 + 2 * 56 + 32, 1 << 30)  # of PT_DYNAMIC
    path = put(bytes(whole))
    os.truncate(path, 2 << 30)
    refused(path, "is broken")


def test_programs_that_compilers_make():
    source = put("int MPI_Init(int *n, char ***v);\n"
                 "int main(void) { return MPI_Init(0, 0); }\n", "main.c", 0o644)
    program = os.path.join(FOLDER, "made")
    if shutil.which("mpicc"):
        subprocess.run(["mpicc", "-o", program, source], check=True)
        fine(program, "takes MPI from libmpi")
    library = put("int MPI_Init(int *n, char ***v) { return 0; }\n"
                  "int PMPI_Init(int *n, char ***v) { return 0; }\n", "mpi.c", 0o644)
    compiler = shutil.which("cc")
    if compiler:
        subprocess.run([compiler, "-o", program, source, library], check=True)
        found(program, "has MPI's functions in itself")
        for how in ("-static", "-static-pie"):
            done = subprocess.run([compiler, how, "-o", program, source, library],
                                  stderr=subprocess.DEVNULL)
            if done.returncode == 0:  # there is a libc.a
                found(program, "is statically linked")


def main():
    global FOLDER
    names = sys.argv[3:]
    tests = [(k, v) for k, v in globals().items()
             if k.startswith("test_") and (not names or k in names)]
    failed = 0
    print(f"1..{len(tests)}")
    for number, (name, test) in enumerate(tests, 1):
        with tempfile.TemporaryDirectory(prefix="bps-program-") as FOLDER:
            try:
                test()
                print(f"ok {number} - {name}", flush=True)
            except Exception:
                failed = 1
                print(f"not ok {number} - {name}")
                print(re.sub("^", "# ", traceback.format_exc(), flags=re.M), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
