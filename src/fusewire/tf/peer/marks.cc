// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/peer/marks.h"

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/fingerprint.h>
#include "fusewire/tf/bridge/names.h"

namespace fusewire::tf {
namespace {

// The hash is not 0, which means none.
uint64_t HashOf(absl::string_view text) { return tensorflow::Fingerprint64({text.data(), text.size()}) | 1; }

Mark Of(observe::Kind kind, absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed) {
  const std::string source = ShortTask({parsed.src_device.data(), parsed.src_device.size()});
  const std::string target = ShortTask({parsed.dst_device.data(), parsed.dst_device.size()});
  const absl::string_view edge = ShortEdge({parsed.edge_name.data(), parsed.edge_name.size()});
  const bool is_target = kind == observe::Kind::kReceive;
  Mark mark;
  mark.tag =
      observe::FindTag(kind, is_target ? target : source, is_target ? source : target, {edge.data(), edge.size()});
  mark.hash = HashOf(key);
  return mark;
}

}  // namespace

Mark MarkReceive(absl::string_view key) {
  if (observe::TheRecorder() == nullptr) return Mark();
  tensorflow::Rendezvous::ParsedKey parsed;
  if (!tensorflow::Rendezvous::ParseKey(absl::StrCat(key, "0:0"), &parsed).ok()) return Mark();
  return Of(observe::Kind::kReceive, key, parsed);
}

Mark MarkProvide(absl::string_view key, const tensorflow::Rendezvous::ParsedKey& parsed) {
  if (observe::TheRecorder() == nullptr) return Mark();
  return Of(observe::Kind::kProvide, key, parsed);
}

uint64_t FlowOf(const Mark& mark, int64_t step) {
  if (mark.hash == 0) return 0;
  // SplitMix64's end: neighbouring steps have nothing in common.
  uint64_t mixed = mark.hash + static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15ULL;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return (mixed ^ (mixed >> 31)) | 1;
}

Mark MarkRun(observe::Kind kind, absl::string_view task, absl::string_view peer, absl::string_view name,
             absl::string_view runner, uint64_t part) {
  Mark mark;
  if (observe::TheRecorder() == nullptr) return mark;
  mark.tag = observe::FindTag(kind, {task.data(), task.size()}, {peer.data(), peer.size()}, {name.data(), name.size()});
  mark.hash = HashOf(absl::StrCat(runner, " part ", part));
  return mark;
}

}  // namespace fusewire::tf
