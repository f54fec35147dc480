// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The folder in which each process of a user names its status port, one file for each: PID.json. A second library of
// the process that shows it has a port of its own, and PID.1.json. Only the user can read them. The file of a process
// that has ended stays until another process starts here; a reader can tell by the process's number and start. Home:
// any thread. Fails: with a Status; the port is then not found automatically.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "fusewire/base/status.h"

namespace fusewire::observe {

// RUNTIME/fusewire if RUNTIME ($XDG_RUNTIME_DIR) is a folder of this user's own, else TEMPORARY/fusewire-UID. Makes it,
// for this user alone; fails if it is somebody else's, or a link.
Result<std::string> OpenFolder(const std::string& runtime, const std::string& temporary);
// Writes a file of this process whose name no other library in it uses, and returns its number: 0 is PID.json. `start`
// is that of the process, which `text` names.
Result<int> ClaimEntry(const std::string& folder, pid_t pid, uint64_t start, const std::string& text);
// Replaces this process's file as a whole.
Status WriteEntry(const std::string& folder, pid_t pid, int number, const std::string& text);
void RemoveEntry(const std::string& folder, pid_t pid, int number);
// Removes the files of processes that have ended, and have not been written to for `age_s` seconds.
void RemoveStale(const std::string& folder, int64_t age_s);

}  // namespace fusewire::observe
