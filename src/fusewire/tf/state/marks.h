// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What of one holding has been written since it was copied: rows, one bit each, or the whole. Who writes marks it
// afterwards, and who copies takes the marks before: a write that a copy has missed is in the next one.
// Home: any thread; Take and SetRows: one. Owns: the bits. Fails: never; what is not known to be a row is the whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <tensorflow/core/framework/tensor.h>

namespace fusewire::tf {

class WriteMarks {
 public:
  void Whole() { is_whole_.store(true, std::memory_order_release); }
  void Rows(const tensorflow::Tensor& indices);
  // Somebody writes it who marks nothing.
  void AlwaysWhole() { is_always_whole_.store(true, std::memory_order_release); }

  struct Taken {
    bool is_whole = false;
    std::vector<uint64_t> rows;  // otherwise; in order
    bool empty() const { return !is_whole && rows.empty(); }
  };
  Taken Take();
  // How many rows it has: from now on they are marked. Only the first call counts; with others, it is always whole.
  void SetRows(uint64_t rows);

 private:
  struct Bits {
    explicit Bits(uint64_t count) : rows(count), words((count + 63) / 64) {}
    const uint64_t rows;
    std::vector<std::atomic<uint64_t>> words;
  };
  template <class Index>
  void MarkRows(const tensorflow::Tensor& indices, Bits* bits);

  std::atomic<bool> is_whole_{true};
  std::atomic<bool> is_always_whole_{false};
  std::atomic<Bits*> bits_{nullptr};  // kept_'s, for writers
  std::unique_ptr<Bits> kept_;
};

}  // namespace fusewire::tf
