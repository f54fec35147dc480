// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The caller's side of a question: it lands the answer, looks at every byte, and counts its ends.
#pragma once

#include <string>
#include <vector>

#include "run.h"

namespace fusewire::simulation {

class Task;

class Asked final : public rpc::Call {
 public:
  Asked(Run* run, Record* record);

 private:
  Result<pipe::Landing> Land(ConstBytes land_head, const rpc::SegmentSizes& sizes) override;
  void OnPart(ConstBytes head, Buffers part) override;
  void OnDone(Status status) override;

  Task* Holder();
  Result<pipe::Landing> LandInOwn(const rpc::SegmentSizes& sizes);
  void OnDoneHeard(const Status& status);
  void CheckAnswer();
  void CheckPart(size_t index, ConstBytes part_head, const Buffers& part);

  Run& run_;
  Record& record_;
  const Question& question_;
  std::string head_text_;
  std::vector<Bytes> parts_;
  bool landed_ = false;  // Land was called
};

// Starts a question on a client of this task; outside of every home, or at home.
void Ask(Run* run, Task* task, int number);

// The actual and the expected segments, as text; empty if they are right.
std::string WhatDiffers(const Buffers& got, const std::vector<size_t>& sizes, int number, Use use, size_t first);

}  // namespace fusewire::simulation
