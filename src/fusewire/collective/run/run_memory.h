// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Maps the spans of a schedule to memory in one run: to the input, the output, or scratch memory.
// Home: the runner's. Owns: the scratch memory, which is kept from run to run; not the arrays.
// Fails: Begin, with kOverloaded, if there is no memory for scratch.
// Every span lies within its array: arrays.h has checked the arrays against the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/schedule/schedule.h"

namespace fusewire::collective {

class RunMemory {
 public:
  RunMemory(size_t element_bytes, size_t scratch_count)
      : element_bytes_(element_bytes), scratch_bytes_(scratch_count * element_bytes) {}

  // The arrays of the run that begins.
  Status Begin(const Pieces& input, const Pieces& output);
  // The address of byte `from` of the span; returns how many bytes of the span are contiguous there.
  size_t At(const Span& span, size_t from, uint8_t** data) const;
  // Bytes or ConstBytes, one for each piece.
  template <class View>
  void ViewInto(const Span& span, std::vector<View>* views) const {
    views->clear();
    const size_t bytes = BytesOf(span);
    for (size_t from = 0; from < bytes;) {
      uint8_t* data = nullptr;
      const size_t run = At(span, from, &data);
      views->push_back(View(data, run));
      from += run;
    }
  }
  size_t BytesOf(const Span& span) const { return span.count * element_bytes_; }
  size_t element_bytes() const { return element_bytes_; }

 private:
  const size_t element_bytes_;
  const size_t scratch_bytes_;
  Buffer scratch_;
  Pieces input_, output_;
  std::vector<size_t> input_starts_, output_starts_;  // of pieces, where there are several
};

}  // namespace fusewire::collective
