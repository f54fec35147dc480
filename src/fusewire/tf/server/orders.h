// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an operator may order a server's process to do; docs/elastic.md has the words.
//   "adopt ps:3": take the task over from its snapshots, and serve it beside the process's own.
// Home: any thread that may wait. Owns: nothing. Fails: with what was not done, and why.
#pragma once

#include <functional>
#include <string>

#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// `adopt` takes a task of `def`'s job over, and says in `done` what it has.
using Adopt = std::function<TfStatus(int index, std::string* done)>;
TfStatus Obey(const std::string& words, const tensorflow::ServerDef& def, const Adopt& adopt, std::string* done);

}  // namespace fusewire::tf
