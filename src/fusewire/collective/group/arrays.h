// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Checks an operation's arrays against its counts, and finds which of them it reads and writes.
// Home: any thread, pure functions. Fails: with kInvalid, which names the count or the array.
#pragma once

#include "fusewire/base/status.h"
#include "fusewire/collective/group/spec.h"
#include "fusewire/collective/run/schedule_runner.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

// The request as it was made: without `in_place` and the algorithm, which are chosen later.
Request RequestOf(const CollectiveSpec& spec, int ranks, int rank);

// Sets the input and output of `run`, and whether they are one array.
Status CheckArrays(const CollectiveSpec& spec, int ranks, int rank, ScheduleRunner::Run* run, bool* in_place);

}  // namespace fusewire::collective
