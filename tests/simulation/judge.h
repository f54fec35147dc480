// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Whether a call may end as it did. Each code needs a reason in what the run has done.
#pragma once

#include "run.h"

namespace fusewire::simulation {

// The failure that a handler of kFail answers with, and a sink or a landing that does not want the body.
Status PlannedFailure(int number);
Status RefusedPlace(int number);

// Finds what is wrong with the status of a call that has just ended.
void Judge(Run* run, const Record& record);

// The latest moment at which a call with a deadline may end; kForeverNs if there is none.
int64_t LatestNs(const Run& run, const Record& record);

}  // namespace fusewire::simulation
