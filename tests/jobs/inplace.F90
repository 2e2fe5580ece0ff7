! SPDX-License-Identifier: BSD-3-Clause
!
! A01: Fortran's MPI_IN_PLACE and MPI_BOTTOM, which are not C's, through each of Fortran's
! three doors: -DUSE_MPIFH, -DUSE_MPI, -DUSE_F08. What is expected of the counters is in
! run-jobs.
program inplace
#if defined(USE_F08)
  use mpi_f08
#elif defined(USE_MPI)
  use mpi
#endif
  implicit none
#if defined(USE_MPIFH)
  include 'mpif.h'
#endif
#if defined(USE_F08)
  type(MPI_Request) :: request
  type(MPI_Datatype) :: absolute
#else
  integer :: request, absolute
#endif
  integer, parameter :: many = 1000000
  integer, save, asynchronous :: x(many)
  integer(kind=MPI_ADDRESS_KIND) :: address(1)
  integer :: rank, n, ierror, failures, lengths(1)

  failures = 0
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, n, ierror)

  x(1) = rank
  call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check('one in place', 1, 0)

  call fill()
  call MPI_Allreduce(MPI_IN_PLACE, x, many, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check('many in place', many, 1)

  call fill()
  call MPI_Iallreduce(MPI_IN_PLACE, x, many, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                      request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call check('nonblocking in place', many, 1)

  call fill()
  if (rank == 0) then
    call MPI_Reduce(MPI_IN_PLACE, x, many, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
    call check('reduce in place', many, 1)
  else
    call MPI_Reduce(x, x, many, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  end if

  ! The buffer is nowhere, the datatype says where.
  call MPI_Get_address(x, address(1), ierror)
  lengths(1) = many
  call MPI_Type_create_hindexed(1, lengths, address, MPI_INTEGER, absolute, ierror)
  call MPI_Type_commit(absolute, ierror)
  x = -1
  if (rank == 1) call fill_with(n * (n - 1) / 2, n)
  call MPI_Bcast(MPI_BOTTOM, 1, absolute, 1, MPI_COMM_WORLD, ierror)
  call touch(x)
  call check('bcast of an absolute type', many, 1)
  call MPI_Type_free(absolute, ierror)

  call MPI_Finalize(ierror)
  if (failures > 0) stop 1

contains

  ! Element i of this rank: its number, and i once.
  subroutine fill()
    call fill_with(rank, 1)
  end subroutine

  subroutine fill_with(constant, slope)
    integer, intent(in) :: constant, slope
    integer :: i

    do i = 1, many
      x(i) = constant + slope * modulo(i, 1000)
    end do
  end subroutine

  subroutine touch(a)
    integer, intent(inout) :: a(:)

    if (size(a) < 1) stop 2
  end subroutine

  subroutine check(what, count, slope)
    character(len=*), intent(in) :: what
    integer, intent(in) :: count, slope
    integer :: i

    do i = 1, count
      if (x(i) /= n * (n - 1) / 2 + slope * n * modulo(i, 1000)) then
        print *, 'rank', rank, ': ', what, ', element', i, 'is', x(i)
        failures = failures + 1
        return
      end if
    end do
  end subroutine
end program
