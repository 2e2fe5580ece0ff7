# SPDX-License-Identifier: BSD-3-Clause
"""B07: the MPI library arrives by dlopen with local scope.

mpi4py: numpy arrays through mpi4py. import: mpi4py without MPI_Init changes nothing.
ctypes: functions taken from the library's own handle go around us, and are right.
"""
import ctypes
import os
import sys


def with_mpi4py():
    import numpy
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    send = numpy.arange(1 << 20, dtype=numpy.float32) % 1000 + rank
    recv = numpy.empty_like(send)
    comm.Allreduce(send, recv)
    want = numpy.arange(1 << 20, dtype=numpy.float32) % 1000 * size + sum(range(size))
    assert (recv == want).all()
    comm.Allreduce(MPI.IN_PLACE, send, MPI.MAX)
    assert (send == numpy.arange(1 << 20) % 1000 + size - 1).all()
    data = numpy.full(1 << 20, rank, dtype=numpy.int32)
    comm.Bcast(data, root=size - 1)
    assert (data == size - 1).all()


def threads():
    return len(os.listdir("/proc/self/task"))


def only_import():
    import mpi4py
    mpi4py.rc.initialize = False
    before = (threads(), sorted(os.listdir("/proc/self/fd")))
    from mpi4py import MPI
    assert not MPI.Is_initialized()
    assert (threads(), sorted(os.listdir("/proc/self/fd"))) == before


def with_ctypes():
    mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_LOCAL)
    # Open MPI's components look for its symbols in the global scope.
    assert mpi.MPI_Init(None, None) == 0
    n = 1 << 20
    send, recv = (ctypes.c_int * n)(*range(n)), (ctypes.c_int * n)()

    def handle(name):
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
    world, size = handle("ompi_mpi_comm_world"), ctypes.c_int()
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    assert mpi.MPI_Allreduce(send, recv, n, handle("ompi_mpi_int"),
                             handle("ompi_mpi_op_sum"), world) == 0
    assert all(recv[i] == i * size.value for i in range(0, n, 997))
    assert mpi.MPI_Finalize() == 0


{"mpi4py": with_mpi4py, "import": only_import, "ctypes": with_ctypes}[sys.argv[1]]()
