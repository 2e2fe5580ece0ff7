/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI library that lacks something: with FAKE_ALL_PASS it has what is needed to pass
 * calls on and no more, else not even that.
 */
int PMPI_Init(void);
int PMPI_Type_size(void);
int PMPI_Init_thread(void);
int PMPI_Finalize(void);
int PMPI_Allreduce(void);
int PMPI_Bcast(void);
int PMPI_Op_create(void);
int PMPI_Op_free(void);
int PMPI_Type_free(void);

int PMPI_Init(void)
{
	return 7;
}

int PMPI_Type_size(void)
{
	return 0;
}

#ifdef FAKE_ALL_PASS
int PMPI_Init_thread(void)
{
	return 0;
}

int PMPI_Finalize(void)
{
	return 0;
}

int PMPI_Allreduce(void)
{
	return 0;
}

int PMPI_Bcast(void)
{
	return 0;
}

int PMPI_Op_create(void)
{
	return 0;
}

int PMPI_Op_free(void)
{
	return 0;
}

int PMPI_Type_free(void)
{
	return 0;
}
#endif
