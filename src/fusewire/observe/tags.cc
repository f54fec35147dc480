// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/tags.h"

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::observe {
namespace {

constexpr std::string_view kOthers = "(others)";

std::string KeyOf(Kind kind, std::string_view task, std::string_view peer, std::string_view name) {
  std::string key(1, static_cast<char>('a' + static_cast<int>(kind)));
  for (std::string_view part : {task, peer, name}) {
    key += part;
    key += '\n';
  }
  return key;
}

}  // namespace

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kReceive: return "receive";
    case Kind::kProvide: return "provide";
    case Kind::kRunOut: return "run_out";
    case Kind::kRunIn: return "run_in";
    case Kind::kCall: return "call";
    case Kind::kStep: return "step";
    case Kind::kSession: return "session";
    case Kind::kCollective: return "collective";
  }
  return "unknown";
}

Tags::Tags() {
  MutexLock lock(mutex_);
  Add(Kind::kCall, "", "", kOthers, "");
}

Tags::~Tags() = default;

Line* Tags::LineOf(Kind kind, std::string_view task, std::string_view peer) {
  for (const auto& line : lines_) {
    if (line->kind == kind && line->task == task && line->peer == peer) return line.get();
  }
  if (lines_.size() >= kLinesMax) return lines_.front().get();  // that of tag 0
  lines_.push_back(std::make_unique<Line>());
  lines_.back()->kind = kind;
  lines_.back()->task = std::string(task);
  lines_.back()->peer = std::string(peer);
  return lines_.back().get();
}

uint32_t Tags::Add(Kind kind, std::string_view task, std::string_view peer, std::string_view name, std::string key) {
  const uint32_t number = size_.load(std::memory_order_relaxed);
  FUSEWIRE_CHECK(number < kChunks * kChunk);
  if (number % kChunk == 0) {
    made_.push_back(std::make_unique<Chunk>());
    chunks_[number / kChunk].store(made_.back().get(), std::memory_order_release);
  }
  Tag& tag = at(number);
  tag.kind = kind;
  tag.task = std::string(task);
  tag.peer = std::string(peer);
  tag.name = std::string(name);
  tag.line = LineOf(kind, task, peer);
  size_.store(number + 1, std::memory_order_release);
  numbers_.emplace(std::move(key), number);
  return number;
}

uint32_t Tags::Find(Kind kind, std::string_view task, std::string_view peer, std::string_view name) {
  task = task.substr(0, kNameBytesMax);
  peer = peer.substr(0, kNameBytesMax);
  name = name.substr(0, kNameBytesMax);
  std::string key = KeyOf(kind, task, peer, name);
  MutexLock lock(mutex_);
  auto found = numbers_.find(key);
  if (found != numbers_.end()) return found->second;
  const uint32_t size = size_.load(std::memory_order_relaxed);
  if (size < kTagsMax) return Add(kind, task, peer, name, std::move(key));
  key = KeyOf(kind, task, peer, kOthers);
  found = numbers_.find(key);
  if (found != numbers_.end()) return found->second;
  return size < kTagsMax + kOthersMax ? Add(kind, task, peer, kOthers, std::move(key)) : 0;
}

std::vector<Line*> Tags::lines() {
  std::vector<Line*> lines;
  MutexLock lock(mutex_);
  for (const auto& line : lines_) lines.push_back(line.get());
  return lines;
}

}  // namespace fusewire::observe
