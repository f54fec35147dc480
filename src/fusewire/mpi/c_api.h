// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What fusewire.jax calls in libfusewire_mpi.so: hands over the group that XLA's collectives go through.
// Home: any thread; not while a computation runs. Owns: nothing; Python keeps the endpoint and the group until
// fusewire_mpi_leave. Fails: as said below.
#pragma once

#include "fusewire/collective/c_api/group_c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// `names` and `addresses`: of the endpoint of each rank of the group. `timeout_ns` of an operation; 0: the group's.
FUSEWIRE_C_API void fusewire_mpi_join(fusewire_endpoint* endpoint, fusewire_group* group, const char* const* names,
                                      const char* const* addresses, int64_t timeout_ns);
// Ends all operations. 0: one has not ended in time, and the endpoint and the group must stay.
FUSEWIRE_C_API int fusewire_mpi_leave(void);
// The next communicators have these ranks alone, which all expect them; none: all ranks are asked, as MPI has it.
FUSEWIRE_C_API void fusewire_mpi_expect(const int* ranks, int count);

#ifdef __cplusplus
}
#endif
