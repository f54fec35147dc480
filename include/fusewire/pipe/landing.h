// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Where the body of a message goes: the receiver's answer to its header.
#pragma once

#include <cstddef>

#include "fusewire/base/bytes.h"

namespace fusewire::pipe {

// A body up to this size may be looked at in the pipe's own memory.
constexpr size_t kViewBytesMax = kCopyBytesMax - 1;

struct Landing {
  enum class Mode {
    kView,     // only for bodies up to kViewBytesMax: shown in OnMessage, valid during that call
    kInto,     // into memory of the receiver
    kDiscard,  // nowhere; OnMessage is still called
  };
  Mode mode = Mode::kView;
  // kInto: together exactly body_bytes. The array and the memory stay valid until OnMessage, OnClosed or Abandon.
  const Bytes* parts = nullptr;
  size_t count = 0;

  static Landing View() { return Landing(); }
  static Landing Discard() { return Landing{Mode::kDiscard, nullptr, 0}; }
  static Landing Into(const Bytes* parts, size_t count) { return Landing{Mode::kInto, parts, count}; }
};

}  // namespace fusewire::pipe
