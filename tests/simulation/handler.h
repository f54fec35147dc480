// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The server's side of a question: it looks at every byte of the request, and answers according to the plan.
#pragma once

#include <string>
#include <vector>

#include "member.h"
#include "run.h"

namespace fusewire::simulation {

constexpr uint16_t kPlainMethod = 1;
constexpr uint16_t kSinkMethod = 2;   // lands the request in memory of its own
constexpr uint16_t kProbeMethod = 3;  // answers with the head it was asked with
constexpr uint16_t kNoMethod = 77;

uint16_t MethodOf(const Question& question);
std::string RequestHead(const Question& question);

// The methods of one task's server.
std::vector<rpc::Method> MakeMethods(Task* task);

}  // namespace fusewire::simulation
