// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: the steps of a task that is asked for tensors, in the place of TensorFlow's manager of rendezvous.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h>
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/peer/world_test.h"

namespace fusewire::tf {

// A tensor of step kStep is ready, or is produced when the test calls for it.
class Producers final : public tensorflow::RendezvousMgrInterface {
 public:
  using Done = tensorflow::Rendezvous::DoneCallback;
  using Args = tensorflow::Rendezvous::Args;

  Producers() = default;
  // Each tensor, of any step and on any thread, comes as `produce` has it.
  explicit Producers(std::function<void(const std::string& edge, Done done)> produce) : produce_(std::move(produce)) {}

  void Have(const std::string& edge, const tensorflow::Tensor& tensor) { there_[edge] = tensor; }
  void Produce(const std::string& edge, const tensorflow::Tensor& tensor, bool is_dead = false) {
    Take(edge)(TfStatus(), Args(), Args(), tensor, is_dead);
  }
  void Fail(const std::string& edge, const TfStatus& status) {
    Take(edge)(status, Args(), Args(), tensorflow::Tensor(), false);
  }
  std::vector<std::string> awaited() const {
    std::vector<std::string> edges;
    for (const auto& [edge, done] : waiting_) edges.push_back(edge);
    return edges;
  }

  void RecvLocalAsync(int64_t step, const tensorflow::Rendezvous::ParsedKey& key, Done done) override {
    const std::string edge(key.edge_name);
    if (produce_ != nullptr) {
      produce_(edge, std::move(done));
      return;
    }
    EXPECT_EQ(step, kStep);
    auto there = there_.find(edge);
    if (there == there_.end()) {
      waiting_[edge] = std::move(done);
    } else {
      done(TfStatus(), Args(), Args(), there->second, false);
    }
  }
  TfRef<tensorflow::RemoteRendezvous> Find(int64_t) override { return nullptr; }
  TfStatus RecvLocal(int64_t, const tensorflow::Rendezvous::ParsedKey&, tensorflow::Tensor*, bool*) override {
    return absl::UnimplementedError("nobody waits here");
  }
  void Cleanup(int64_t) override {}
  void CleanupAll() override {}

 private:
  Done Take(const std::string& edge) {
    auto taken = waiting_.extract(edge);
    EXPECT_FALSE(taken.empty()) << edge;
    return std::move(taken.mapped());
  }

  const std::function<void(const std::string& edge, Done done)> produce_;
  std::map<std::string, tensorflow::Tensor> there_;
  std::map<std::string, Done> waiting_;
};

}  // namespace fusewire::tf
