#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bpsmpi-check --program on programs of this test's own making, whole and broken.

usage: test-program.py BPSMPI_CHECK LIBBYTEPSMPI [NAME...]

Prints TAP. With names, only those tests run.
"""

import contextlib
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
from functions import check, run_all  # noqa: E402

CHECK, LIBRARY = (os.path.realpath(x) for x in sys.argv[1:3])
FOLDER = None  # of each test
HOST = socket.gethostname()
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


def own_loader():
    with open("/proc/self/exe", "rb") as file:
        file.seek(32)
        at, = struct.unpack("<Q", file.read(8))
        while True:
            file.seek(at)
            kind, _, offset, _, _, size = struct.unpack("<IIQQQQ", file.read(40))
            if kind == PT_INTERP:
                file.seek(offset)
                return file.read(size - 1)
            at += 56


LOADER = own_loader()


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


def look(path, cwd=None, prefix=(), **env):
    """(status, what it says in one line), of output or of error."""
    env = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
    done = subprocess.run([*prefix, CHECK, "--program", path], cwd=cwd, env=env, text=True,
                          errors="replace", capture_output=True, timeout=10)
    check(done.returncode in (0, 1, 2), "status %d" % done.returncode)
    check((done.returncode == 2) == (done.stderr != ""), done)
    check(done.stderr.count("\n") == (done.returncode == 2), done.stderr)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def fine(path, *parts, cwd=None, **env):
    status, said = look(path, cwd, **env)
    check(status == 0 and said.startswith(HOST + ", program: "), said)
    check(all(x in said for x in ("LD_PRELOAD works for", *parts)), said)


def found(path, *parts):
    """One finding with these parts."""
    status, said = look(path)
    check(status == 1 and said.startswith("%s, program: %s " % (HOST, path)), said)
    check(all(said.count(x) == 1 for x in (" cost: ", " remedy: ")), said)
    check(all(x in said for x in parts), said)


def refused(path, *parts, cwd=None, **env):
    status, said = look(path, cwd, **env)
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


def test_a_name_is_looked_for_as_launchers_do():
    """In PATH, past what cannot be started, and in the current folder last."""
    folders = [os.path.join(FOLDER, x) for x in ("here", "first", "second")]
    for folder in folders:
        os.mkdir(folder)
    here, first, second = folders
    path = "%s:%s" % (first, second)
    put(elf(), "here/prog")
    fine("prog", "works for ./prog. ", cwd=here, PATH=path)
    fine("prog", "works for ./prog. ", cwd=here, PATH=None)
    put(elf(), "second/prog")
    fine("prog", "works for %s/prog. " % second, cwd=here, PATH=path)
    os.mkdir(first + "/prog")
    fine("prog", "works for %s/prog. " % second, cwd=here, PATH=path)
    os.rmdir(first + "/prog")
    put(elf(), "first/prog", 0o644)
    fine("prog", "works for %s/prog. " % second, cwd=here, PATH=path)
    os.unlink(here + "/prog")
    os.unlink(second + "/prog")
    refused("prog", "%s/prog: it may not be executed" % first, cwd=here, PATH=path)
    os.unlink(first + "/prog")
    os.mkdir(second + "/prog")
    refused("prog", "%s/prog: it is no plain file" % second, cwd=here, PATH=path)
    os.rmdir(second + "/prog")
    refused("prog", "prog: there is no program of that name", cwd=here, PATH=path)
    refused("./prog", "./prog: No such file", cwd=here, PATH=path)
    put(elf(), "here/prog")
    fine("prog", "works for ./prog. ", cwd=here, PATH=path + "::/nowhere")
    fine("./prog", "works for ./prog. ", cwd=here, PATH=path)
    fine("sh", "works for /bin/sh. ", cwd=second, PATH=None)


def does_run(script, folder):
    """Whether the kernel and env get from a script to cat."""
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run([script], cwd=folder, stdout=out,
                                  stderr=subprocess.DEVNULL, timeout=1)
        except OSError:
            return False
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and os.fstat(out.fileno()).st_size > 0


def test_first_lines_as_the_kernel_and_env_read_them():
    """Each is tried, too: who is refused does not run, and who is not does."""
    here = os.path.join(FOLDER, "here")
    os.mkdir(here)
    os.symlink(shutil.which("cat"), here + "/a-cat")
    slashes = "/" * 300
    cr = "ends in a carriage return"
    again = "names no program for env to run"
    word = "as one word; write #!/usr/bin/env -S "
    for line, said in (
            ("/bin/cat", None), ("\t /bin/cat\t -u \t", None), ("/bin/cat\r", cr),
            ("/bin/cat -u\r", cr), ("/usr/bin/env cat\r", cr),
            ("/usr/bin/env cat", None), ("/usr/bin/env /bin/cat", None),
            ("/usr/bin/env -S cat -u\r", None), ("/usr/bin/env -Scat", None),
            ("/usr/bin/env -vS A=1 cat", None), ("/usr/bin/env --split-string=cat -u", None),
            ("/usr/bin/env -S PYTHONPATH=/x cat", None),
            ("/usr/bin/env -S -u X -- cat", None),
            ("/usr/bin/env -S -C / cat /etc/passwd", None),
            ("/usr/bin/env A=1 cat", word + "A=1 cat"),
            ("/usr/bin/env -i cat", word + "-i cat"),
            ("/usr/bin/env cat -u", word + "cat -u"),
            ("/usr/bin/env", again), ("/usr/bin/env A=1", again), ("/usr/bin/env -i", again),
            ("/usr/bin/env -S", again), ("/usr/bin/env -S A=1", again),
            ("/usr/bin/env no-such-cat", "env finds no 'no-such-cat'"),
            ("/usr/bin/env -S PATH=/nowhere:/no cat", "env finds no 'cat'"),
            ("/usr/bin/env ./no", "./no: No such file"),
            ("/no/bin/env cat", "/no/bin/env: No such file"),
            ("cat", "'cat', which is looked for in the folder"),
            ("a-cat", None), ("./a-cat", None), ("/bin", "/bin: it is no plain file"),
            ("/etc/passwd", "/etc/passwd: it may not be executed"),
            ("", "neither ELF nor a script"), (" \t", "neither ELF nor a script"),
            (slashes + "bin/cat", "longer than the 255 characters"),
            (slashes[:240] + "bin/cat", None),
            (slashes[:240] + "bin/cat " + 300 * " ", None)):
        script = put("#!%s\nbody\n" % line, "script")
        runs = does_run(script, here)
        check(runs == (said is None), (line, runs))
        if said is None:
            fine(script, cwd=here)
        else:
            status, text = look(script, here)
            check(status == 2 and said in text, text)


def test_env_that_drops_the_variable():
    for line, drops in (("-i sh", True), ("- sh", True), ("--ignore-environment sh", True),
                        ("-u LD_PRELOAD sh", True), ("-uLD_PRELOAD sh", True),
                        ("--unset=LD_PRELOAD sh", True), ("LD_PRELOAD= sh", True),
                        ("-vi sh", True), ("-u X sh", False), ("A=1 sh", False)):
        script = put('#!/usr/bin/env -S %s\necho "<$LD_PRELOAD>"\n' % line, "script")
        done = subprocess.run([script], env={**os.environ, "LD_PRELOAD": "libc.so.6"},
                              text=True, capture_output=True, timeout=10)
        check(("<libc.so.6>" not in done.stdout) == drops, (line, done))
        status, said = look(script)
        check(status == int(drops), said)
        check(("program: %s has env take LD_PRELOAD away" % script in said) == drops, said)


def test_scripts_of_scripts():
    """The kernel goes through five; env starts afresh."""
    below = "/bin/cat"
    for number in range(1, 7):
        script = put("#!%s\nbody\n" % below, "script%d" % number)
        check(does_run(script, FOLDER) == (number <= 5), number)
        if number <= 5:
            fine(script)
        else:
            refused_after(script, "too many scripts that run each other",
                          "the kernel follows 5")
        below = script
    middle = put("#!/usr/bin/env %s/script5\n" % FOLDER, "middle")
    script = put("#!%s\n" % middle, "script")
    check(does_run(script, FOLDER))
    fine(script)
    put("#!/usr/bin/env %s\n" % script, "middle")
    refused_after(script, "scripts start each other without end")


def test_files_that_may_not_be_started():
    path = put(elf(), mode=0o644)
    refused(path, "may not be executed; if it is a program: chmod +x " + path)
    refused_after(put("#!%s\n" % path, "script"), "is a script of", path + ": it may not be")
    os.symlink("one", FOLDER + "/two")
    os.symlink("two", FOLDER + "/one")
    refused(FOLDER + "/one", FOLDER + "/one: its symbolic links lead in a circle")
    refused("one", "symbolic links lead in a circle", PATH=FOLDER)
    path = put(elf(loader=b"/no/loader.so"))
    refused(path, path + ": its loader /no/loader.so is not here")


def test_a_file_system_that_starts_no_programs():
    folder = os.path.join(FOLDER, "mount")
    os.mkdir(folder)
    mount = "mount -t tmpfs -o noexec none %s && " % folder
    if subprocess.run(["unshare", "-m", "sh", "-c", mount + "true"],
                      stderr=subprocess.DEVNULL).returncode:
        print("# not allowed to mount here")
        return
    path = folder + "/program"
    status, said = look(path, prefix=("unshare", "-m", "sh", "-c", mount + 'cp %s %s; "$@"' %
                                      (put(elf()), path), "sh"))
    check(status == 2 and path + ": it lies on a file system that is mounted noexec" in said,
          said)


def test_files_that_may_be_started_and_not_read():
    if os.geteuid() != 0:
        return
    path = put(elf(), mode=0o711)
    os.chmod(FOLDER, 0o755)
    copy = shutil.copy(CHECK, FOLDER)
    done = subprocess.run([copy, "--program", path], user=65534, text=True,
                          capture_output=True, timeout=10)
    check(done.returncode == 2 and path + ": it may be executed but not read" in done.stderr,
          done)


def refused_after(path, said_first, *parts):
    status, said = look(path)
    check(status == 2 and all(x in said for x in (said_first, *parts)), said)


def test_scripts_that_end_nowhere():
    script = os.path.join(FOLDER, "script")
    put("#!%s\n" % script, "script")
    refused_after(script, "is a script of", "too many scripts")
    put("#!/usr/bin/env script\n", "script")
    status, said = look(script, PATH=FOLDER)
    check(status == 2 and "start each other without end" in said, said)
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
    refused(os.path.join(FOLDER, "no\x1b\nne"), "/no??ne: No such file")
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
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise AssertionError("seed %d: %s" % (seed, error)) from None


def test_first_lines_that_are_broken():
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    parts = ("/usr/bin/env", "/env", "/bin/cat", "-S", "-", "--", "-u", "-C", "-i", "A=", "=",
             "PATH=", "PATH", "LD_PRELOAD", " ", " ", "\t", "\r", "\0", "\n", "\"", "x" * 120)
    for _ in range(300):
        line = "".join(chance.choice(parts) for _ in range(chance.randrange(9)))
        try:
            look(put("#!" + line, "script"), FOLDER)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise AssertionError("seed %d: %s" % (seed, error)) from None


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


@contextlib.contextmanager
def a_folder():
    global FOLDER
    with tempfile.TemporaryDirectory(prefix="bps-program-") as FOLDER:
        yield


def main():
    return run_all(globals(), sys.argv[3:], a_folder)


if __name__ == "__main__":
    sys.exit(main())
