// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages between a test and the peer that it starts: methods over the wire, lines over pipes.
//   --key=value       host, port, name, cluster, secret, silent_ms, hello_ms, window_bytes, queued_bytes,
//                     reactors, journal, parent, wire (ucx, tcp, ...),
//                     tls (a folder with task.crt, task.key and ca.crt),
//                     fds (the hard limit of descriptors; the soft one is a quarter)
//                     apart (user, pid: a namespace of its own; strangers: a user namespace that knows no user)
//   stdout            "ready PORT", or "failed: STATUS" and exit 3; then one line for each command
//   stdin  stats      accepted, greeted, turned_away, superseded, open, in_flight, runs: "KEY NUMBER KEY NUMBER ..."
//          flood HOST:PORT LINKS METHOD COUNT HEAD
//                     makes LINKS clients and starts COUNT calls on each; answers at once, "flooding"
//          dones      started, ended, ok, twice (dones beyond the first of a call)
//          quit GRACE_MS
//                     closes clients, server and task; answers as dones, then exits with 0
//   stderr            the log
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/task/task.h"
#include "fusewire/task/transport_choice.h"

namespace fusewire::faults {

constexpr uint16_t kEcho = 1;     // answers with what came
constexpr uint16_t kSink = 2;     // takes a body, answers with its size
constexpr uint16_t kSlow = 3;     // answers after as many ms as the head requests
constexpr uint16_t kProduce = 4;  // answers with a body of as many bytes as the head requests
constexpr uint16_t kHold = 5;     // does not answer
constexpr uint16_t kJournal = 6;  // writes the head into the journal, then answers after 1 ms

// The transport of both sides. The tests run once for what a task takes by itself, which is shared memory on one
// machine, and again for each of the others.
inline task::TransportChoice WireUnderTest() {
  const char* name = std::getenv("FUSEWIRE_FAULTS_WIRE");
  task::TransportChoice wire = task::TransportChoice::kAuto;
  if (name != nullptr) FUSEWIRE_CHECK(task::TransportChoiceOf(name, &wire));
  return wire;
}

}  // namespace fusewire::faults
