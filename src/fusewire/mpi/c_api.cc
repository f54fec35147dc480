// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Every symbol that the library shows: what MPItrampoline looks up, and what fusewire.jax calls
// (python/fusewire/jax/library.py mirrors it).
#include <algorithm>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/collective/c_api/group_c_api.h"
#include "fusewire/mpi/abi.h"
#include "fusewire/mpi/operations.h"
#include "fusewire/mpi/world.h"

using fusewire::mpi::Fail;
using fusewire::mpi::Handle;
using fusewire::mpi::Message;
using fusewire::mpi::Status;
using fusewire::mpi::TheWorld;
using fusewire::mpi::Use;
namespace mpi = fusewire::mpi;
namespace handle = fusewire::mpi::handle;
namespace number = fusewire::mpi::number;

namespace {

// XLA calls MPI_Init once, before the first communicator, and MPI_Finalize at exit.
bool initialized = false;
bool finalized = false;

int Unserved(const char* symbol) {
  return Fail(
      number::kERR_UNSUPPORTED_OPERATION,
      "MPI_" + std::string(symbol).substr(std::string("MPIABI_").size()) +
          " is not served: libfusewire_mpi.so has the functions that XLA calls for collectives on CPUs, and is "
          "not an MPI for other programs; set MPITRAMPOLINE_LIB to a wrapper of an MPI for those (see: fusewire "
          "explain jax)");
}

// Cut to what the caller has room for.
void Copy(const std::string& text, size_t bytes, char* into, int* length) {
  const size_t size = std::min(text.size(), bytes - 1);
  std::copy_n(text.data(), size, into);
  into[size] = 0;
  *length = static_cast<int>(size);
}

std::vector<std::string> Texts(const char* const* texts, int count) {
  return std::vector<std::string>(texts, texts + count);
}

Message MessageOf(const void* data, int count, Handle datatype, int peer, int tag) {
  return {const_cast<void*>(data), count, datatype, peer, tag};  // of a send, nothing is written
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): MPItrampoline's names
extern "C" {

// ---- what fusewire.jax calls; not while a computation runs ----

// Hands over the group that XLA's collectives go through. Python keeps the endpoint and the group until
// fusewire_mpi_leave. `names` and `addresses`: of the endpoint of each rank of the group. `timeout_ns` of an operation;
// 0: the group's.
FUSEWIRE_C_API void fusewire_mpi_join(fusewire_endpoint* endpoint, fusewire_group* group, const char* const* names,
                                      const char* const* addresses, int64_t timeout_ns) {
  const int ranks = fusewire_group_ranks(group);
  TheWorld().Join(endpoint, group, Texts(names, ranks), Texts(addresses, ranks), timeout_ns);
}

// Ends all operations. 0: one has not ended in time, and the endpoint and the group must stay.
FUSEWIRE_C_API int fusewire_mpi_leave() { return TheWorld().Leave() ? 1 : 0; }

// The next communicators have these ranks alone, which all expect them; none: all ranks are asked, as MPI has it.
FUSEWIRE_C_API void fusewire_mpi_expect(const int* ranks, int count) {
  TheWorld().Expect(std::vector<int>(ranks, ranks + count));
}

// ---- constants ----

#define NUMBER(name, value) FUSEWIRE_C_API extern const int MPIABI_##name = value;
#include "fusewire/mpi/abi_numbers.inc"
#undef NUMBER
#define HANDLE(name, value) FUSEWIRE_C_API extern const Handle MPIABI_##name = handle::k##name;
#include "fusewire/mpi/abi_handles.inc"
#undef HANDLE

FUSEWIRE_C_API extern const int mpiabi_version_major = mpi::kAbiMajor;
FUSEWIRE_C_API extern const int mpiabi_version_minor = mpi::kAbiMinor;
FUSEWIRE_C_API extern const int mpiabi_version_patch = mpi::kAbiPatch;
// MPItrampoline only prints these.
FUSEWIRE_C_API extern const int mpiwrapper_version_major = 0;
FUSEWIRE_C_API extern const int mpiwrapper_version_minor = 0;
FUSEWIRE_C_API extern const int mpiwrapper_version_patch = 0;
FUSEWIRE_C_API void mpiwrapper_export_fortran_constants_() {}

// ---- functions that are not served, and Fortran's handles ----

#define UNSERVED(name) \
  FUSEWIRE_C_API int name() { return Unserved(#name); }
#define CONVERSION(name) \
  FUSEWIRE_C_API Handle name(Handle given) { return given; }
#include "fusewire/mpi/abi_unserved.inc"
#undef UNSERVED
#undef CONVERSION

// ---- the library ----

FUSEWIRE_C_API int MPIABI_Init_thread(int* /*argc*/, char*** /*argv*/, int /*required*/, int* provided) {
  initialized = true;
  *provided = number::kTHREAD_MULTIPLE;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Init(int* argc, char*** argv) {
  int provided = 0;
  return MPIABI_Init_thread(argc, argv, number::kTHREAD_MULTIPLE, &provided);
}

FUSEWIRE_C_API int MPIABI_Finalize() {
  finalized = true;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Initialized(int* flag) {
  *flag = initialized ? 1 : 0;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Finalized(int* flag) {
  *flag = finalized ? 1 : 0;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Query_thread(int* provided) {
  *provided = number::kTHREAD_MULTIPLE;
  return number::kSUCCESS;
}

// XLA makes communicators on the threads of its pool, and refuses to on a thread of which this is not true. Here, any
// thread may make one.
FUSEWIRE_C_API int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Get_version(int* version, int* subversion) {
  *version = 3;
  *subversion = 1;
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Get_library_version(char* version, int* length) {
  Copy("Fusewire: the part of MPI that XLA uses on CPUs", mpi::kLibraryTextBytes, version, length);
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Error_string(int error, char* text, int* length) {
  Copy(mpi::TextOf(error), mpi::kErrorTextBytes, text, length);
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Error_class(int error, int* error_class) {
  *error_class = error;
  return number::kSUCCESS;
}

FUSEWIRE_C_API double MPIABI_Wtime() { return static_cast<double>(fusewire::Clock::Real()->NowNs()) * 1e-9; }
FUSEWIRE_C_API double MPIABI_Wtick() { return 1e-9; }
FUSEWIRE_C_API intptr_t MPIABI_Aint_add(intptr_t base, intptr_t distance) { return base + distance; }
FUSEWIRE_C_API intptr_t MPIABI_Aint_diff(intptr_t one, intptr_t other) { return one - other; }

// ---- communicators ----

// XLA looks at neither result: a communicator that could not be made has a rank and a size, too.
FUSEWIRE_C_API int MPIABI_Comm_rank(Handle communicator, int* rank) {
  const Use use(TheWorld(), communicator);
  *rank = use.communicator() == nullptr ? 0 : use->rank;
  return use.error();
}

FUSEWIRE_C_API int MPIABI_Comm_size(Handle communicator, int* size) {
  const Use use(TheWorld(), communicator);
  *size = use.communicator() == nullptr ? 1 : static_cast<int>(use->ranks.size());
  return use.error();
}

FUSEWIRE_C_API int MPIABI_Comm_split(Handle communicator, int color, int key, Handle* made) {
  *made = handle::kCOMM_NULL;
  if (communicator != handle::kCOMM_WORLD)
    return Fail(number::kERR_COMM, "only MPI_COMM_WORLD can be split, as XLA does: docs/jax.md");
  *made = TheWorld().Split(color, key);
  return number::kSUCCESS;
}

FUSEWIRE_C_API int MPIABI_Comm_free(Handle* communicator) {
  TheWorld().Free(*communicator);
  *communicator = handle::kCOMM_NULL;
  return number::kSUCCESS;
}

// ---- collectives and messages ----

FUSEWIRE_C_API int MPIABI_Allreduce(const void* from, void* to, int count, Handle datatype, Handle op,
                                    Handle communicator) {
  return mpi::AllReduce(TheWorld(), from, to, count, datatype, op, communicator);
}

FUSEWIRE_C_API int MPIABI_Allgather(const void* from, int from_count, Handle from_type, void* to, int to_count,
                                    Handle to_type, Handle communicator) {
  return mpi::AllGather(TheWorld(), from, from_count, from_type, to, to_count, to_type, communicator);
}

FUSEWIRE_C_API int MPIABI_Reduce_scatter(const void* from, void* to, const int* counts, Handle datatype, Handle op,
                                         Handle communicator) {
  return mpi::ReduceScatter(TheWorld(), from, to, counts, datatype, op, communicator);
}

FUSEWIRE_C_API int MPIABI_Isend(const void* data, int count, Handle datatype, int to, int tag, Handle communicator,
                                Handle* request) {
  return mpi::BeginSend(TheWorld(), MessageOf(data, count, datatype, to, tag), communicator, request);
}

FUSEWIRE_C_API int MPIABI_Irecv(void* data, int count, Handle datatype, int from, int tag, Handle communicator,
                                Handle* request) {
  return mpi::BeginReceive(TheWorld(), MessageOf(data, count, datatype, from, tag), communicator, request);
}

FUSEWIRE_C_API int MPIABI_Wait(Handle* request, Status* status) { return mpi::Wait(TheWorld(), request, status); }

FUSEWIRE_C_API int MPIABI_Sendrecv(const void* sent, int sent_count, Handle sent_type, int to, int sent_tag,
                                   void* received, int received_count, Handle received_type, int from, int received_tag,
                                   Handle communicator, Status* status) {
  return mpi::SendReceive(TheWorld(), MessageOf(sent, sent_count, sent_type, to, sent_tag),
                          MessageOf(received, received_count, received_type, from, received_tag), communicator, status);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
