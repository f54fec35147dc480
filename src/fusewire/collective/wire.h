// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a schedule needs of a network, and how it is run on one.
// Home: the caller's thread, which waits in RunSchedule. Owns: the scratch of a run. Fails: with the Courier's status,
// at the latest at the deadline. After a failure nothing is in flight that touches the arrays: RunSchedule waits for
// CancelAll.
#ifndef FUSEWIRE_COLLECTIVE_WIRE_H_
#define FUSEWIRE_COLLECTIVE_WIRE_H_

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/arithmetic.h"
#include "fusewire/collective/schedule.h"

namespace fusewire {
namespace collective {

// One group's messages. The k-th send from a to b meets the k-th receive at b from a. `done` fires exactly once, during
// Progress or CancelAll, never inside Send or Receive.
class Courier {
 public:
  virtual ~Courier() = default;
  // `bytes` stay as they are until `done`.
  virtual void Send(int peer, ConstBytes bytes, Done done) = 0;
  // A message of another size is an error of this receive. Of an error, nothing is promised about what has landed.
  virtual void Receive(int peer, Bytes into, Done done) = 0;
  // Moves what can be moved, and waits until something did or `deadline_ns` of Clock::Real() passes; then a timeout.
  virtual Status Progress(int64_t deadline_ns) = 0;
  // Ends all that is in flight with `why`; when it returns, no array is touched any more.
  virtual void CancelAll(const Status& why) = 0;
};

// `input` and `output` as the Request says; in place both views show the same array.
struct Arrays {
  Bytes input;
  Bytes output;
};

// Runs the schedule of this rank. Reductions of a stage run while its messages travel. `ranks` divides an average.
// A schedule without a reduction needs no reducer: `element_bytes` then says what its elements are.
Status RunSchedule(const Schedule& schedule, const Reducer* reducer, size_t element_bytes, int ranks,
                   const Arrays& arrays, Courier* courier, int64_t deadline_ns);

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_WIRE_H_
