// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Groups for other languages: plain C over group.h, with the same contract; see docs/collectives-contract.md. As in
// p2p/c_api.h, a function that can fail returns a code of docs/errors.md, 0 for success, and fusewire_error() returns
// the text. Times are in nanoseconds; 0 is the group's own timeout. Any thread; a thread that waits drives the idle
// reactor. Free a group's tickets before the group, and the group before its endpoint.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fusewire/p2p/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fusewire_group fusewire_group;
typedef struct fusewire_ticket fusewire_ticket;
typedef struct fusewire_plan fusewire_plan;

typedef struct fusewire_piece {
  void* data;
  size_t bytes;
} fusewire_piece;

// Numbers of kinds, operators and types are those of collective/kernels/types.h. Counts are in elements.
typedef struct fusewire_collective_spec {
  int kind;
  int op;
  int type;
  int root;
  const uint64_t* counts;
  size_t counts_size;
  const uint64_t* receives;
  size_t receives_size;
  const fusewire_piece* from;  // empty: in place
  size_t from_size;
  const fusewire_piece* to;
  size_t to_size;
  uint64_t key;  // 0: matched in the order of calls
  int confirm;   // not 0: it ends when the ranks to which it sends have all of it
  int64_t timeout_ns;
} fusewire_collective_spec;

// All fields but `rank` and `addresses` are the same at all ranks.
typedef struct fusewire_group_options {
  const char* name;
  int ranks;
  int rank;
  const char* const* names;      // of each rank's endpoint
  const char* const* addresses;  // empty or null: that rank dials this one
  const int* hosts;              // the host of each rank, as any number; null: unknown
  const char* table;             // rows of choice.h, as text; null: none
  int reproducible;
  int without_arena;  // not 0: over messages, even if all ranks are on one host
} fusewire_group_options;

// Does not wait.
FUSEWIRE_C_API int fusewire_group_make(fusewire_endpoint* endpoint, const fusewire_group_options* options,
                                       fusewire_group** out);
FUSEWIRE_C_API int fusewire_group_subgroup(fusewire_group* group, const char* name, const int* ranks, int count,
                                           fusewire_group** out);
// Shows this process to `fusewire top`, `why`, `trace` and Prometheus (docs/seeing.md), as rank N of this group, until
// the group is freed: its operations are recorded, with those of groups that the endpoint makes later, and the process
// answers at a status port. `place` is in the words of FUSEWIRE_STATUS: null for loopback, "off" for nothing; beyond
// loopback, callers must know the endpoint's secret. `runtime` is XDG_RUNTIME_DIR, or null. Call it before the first
// operation. A second group of an endpoint makes no other task. If it fails, the group works all the same.
FUSEWIRE_C_API int fusewire_group_show(fusewire_group* group, const char* place, const char* runtime);
FUSEWIRE_C_API void fusewire_group_free(fusewire_group* group);
FUSEWIRE_C_API int fusewire_group_rank(fusewire_group* group);
FUSEWIRE_C_API int fusewire_group_ranks(fusewire_group* group);
FUSEWIRE_C_API uint32_t fusewire_group_epoch(fusewire_group* group);
// 0, or why all operations fail since a rank was lost, until the next shrink. For callers that wait for something
// other than an operation: a receive from any peer, say, which does not end when a peer is lost.
FUSEWIRE_C_API int fusewire_group_broken(fusewire_group* group);
// 1: operations without a key currently go through an arena.
FUSEWIRE_C_API int fusewire_group_in_arena(fusewire_group* group);
FUSEWIRE_C_API void fusewire_group_abort(fusewire_group* group, const char* why);
FUSEWIRE_C_API int fusewire_group_shrink(fusewire_group* group, int64_t timeout_ns);

// Words for a table of algorithms: the name of a kind, and the names of its algorithms, separated by spaces. Null if
// there is no such kind.
FUSEWIRE_C_API const char* fusewire_collective_kind(int kind);
FUSEWIRE_C_API const char* fusewire_collective_algorithms(int kind);

// Hooks for a thread of another language that waits: `begin` releases what it must not hold while it waits (an
// interpreter's lock), `end` takes it back. When a signal interrupts the thread, and every 200 ms, `called_off` is
// called between `end` and `begin`; if it returns not 0, the operation is cancelled. All run on the thread that waits.
typedef struct fusewire_waiting {
  void* (*begin)(void);
  void (*end)(void* begun);
  int (*called_off)(void);
} fusewire_waiting;
// Waits until it has ended. `waiting` may be null.
FUSEWIRE_C_API int fusewire_group_run(fusewire_group* group, const fusewire_collective_spec* spec,
                                      const fusewire_waiting* waiting);
// The lists that `spec` names are copied, the arrays are not.
FUSEWIRE_C_API int fusewire_group_start(fusewire_group* group, const fusewire_collective_spec* spec,
                                        fusewire_ticket** out);
// 1: the operation has ended. 0: it has not ended within limit_ns. With a negative limit, it also returns 0 when a
// signal interrupts the thread, and from time to time, in case a signal arrived just before the wait: run the handlers,
// and wait again.
FUSEWIRE_C_API int fusewire_ticket_wait(fusewire_ticket* ticket, int64_t limit_ns);
// The code of the operation, after its end.
FUSEWIRE_C_API int fusewire_ticket_result(fusewire_ticket* ticket);
FUSEWIRE_C_API void fusewire_ticket_cancel(fusewire_ticket* ticket);
// Cancels the operation if it is under way, and waits for its end.
FUSEWIRE_C_API void fusewire_ticket_free(fusewire_ticket* ticket);

// An operation that is prepared once and run again and again on the same arrays, which stay valid and unmoved until the
// plan is freed: it is checked and compiled only once, by its first run. Each run has its place among all calls of the
// group. One run at a time: another one fails with `invalid`. Free a plan before its group, and after its tickets.
FUSEWIRE_C_API int fusewire_plan_make(fusewire_group* group, const fusewire_collective_spec* spec, fusewire_plan** out);
FUSEWIRE_C_API int fusewire_plan_run(fusewire_plan* plan, const fusewire_waiting* waiting);
FUSEWIRE_C_API int fusewire_plan_start(fusewire_plan* plan, fusewire_ticket** out);
FUSEWIRE_C_API void fusewire_plan_free(fusewire_plan* plan);

#ifdef __cplusplus
}
#endif
