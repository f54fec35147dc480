// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Steps of a real worker, as the plug-in wrote them to FUSEWIRE_STAR_RECORD; see src/fusewire/tf/star/call/recording.h.
// Home: none, plain values. Owns: the recorded bytes. Fails: ends the program, and says what is wrong with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fusewire::bench {

// The methods of src/fusewire/tf/heads/calls.h that a step is made of; kinds of records, too.
enum StarMethod : uint16_t { kPlacePart = 12, kRunPart = 13 };

struct RecordedRun {
  size_t part = 0;   // of Record::parts
  std::string rest;  // of the head, behind the numbers of part and step
  std::vector<std::string> segments;
};
using RecordedStep = std::vector<RecordedRun>;

struct RecordedPart {
  uint64_t number = 0;
  std::string place_head;  // of kPlacePart
};

struct Record {
  std::string address;
  std::vector<RecordedPart> parts;  // those that the steps run
  std::vector<RecordedStep> steps;  // all alike: the same parts in the same order
};

// The server that most calls went to, and the kind of step that was made most often.
Record ReadRecord(const std::string& path);

}  // namespace fusewire::bench
