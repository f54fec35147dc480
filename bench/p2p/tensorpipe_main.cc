// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// TensorPipe: small messages as one payload, large ones as one tensor; over its uv (TCP)
// with the basic channel, and over its shm with the channel cma.
#include <tensorpipe/tensorpipe.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "bench/p2p/ends.h"

namespace fusewire::bench {
namespace {

namespace tp = tensorpipe;

constexpr size_t kTensorBytes = 16 * 1024;

// A counter that TensorPipe's threads increment and the caller waits for.
class Counter {
 public:
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  void Await(uint64_t at_least) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= at_least; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

void Check(const tp::Error& error) {
  if (error) Die(error.what());
}

class PipeEnd final : public End {
 public:
  explicit PipeEnd(const Way& way) : context_(std::make_shared<tp::Context>()) {
    if (way.wire == "tcp") {
      context_->registerTransport(0, "tcp", tp::transport::uv::create());
      context_->registerChannel(0, "basic", tp::channel::basic::create());
    } else {
      context_->registerTransport(0, "shm", tp::transport::shm::create());
      context_->registerChannel(0, "cma", tp::channel::cma::create());
    }
    const std::string transport = way.wire == "tcp" ? "tcp" : "shm";
    if (way.serves) {
      listener_ = context_->listen({way.wire == "tcp" ? "tcp://127.0.0.1" : "shm://"});
      listener_->accept([this](const tp::Error& error, std::shared_ptr<tp::Pipe> pipe) {
        Check(error);
        pipe_ = std::move(pipe);
        accepted_.Add();
      });
      Swap(way, listener_->url(transport));
      accepted_.Await(1);
    } else {
      pipe_ = context_->connect(Swap(way, ""));
    }
  }

  void Send(const void* data, size_t size, uint64_t count) override {
    const size_t depth = DepthOf(size);
    Counter written;
    for (uint64_t i = 0; i < count; ++i) {
      if (i >= depth) written.Await(i - depth + 1);
      tp::Message message;
      if (size < kTensorBytes) {
        message.payloads.push_back({const_cast<void*>(data), size, ""});
      } else {
        message.tensors.push_back({tp::CpuBuffer{const_cast<void*>(data)}, size, tp::nullopt, ""});
      }
      pipe_->write(std::move(message), [&written](const tp::Error& error) {
        Check(error);
        written.Add();
      });
    }
    written.Await(count);
  }

  void Receive(void* data, size_t size, uint64_t count) override {
    Counter read;
    left_ = count;
    ReadOne(data, size, &read);
    read.Await(count);
  }

 private:
  // Posts the next read as soon as this one has its memory: several are in flight.
  void ReadOne(void* data, size_t size, Counter* read) {
    if (left_-- == 0) return;
    pipe_->readDescriptor([this, data, size, read](const tp::Error& error, tp::Descriptor descriptor) {
      if (error) std::_Exit(0);  // the client has what it wants
      tp::Allocation allocation;
      if (!descriptor.payloads.empty()) allocation.payloads.push_back({data});
      if (!descriptor.tensors.empty()) allocation.tensors.push_back({tp::CpuBuffer{data}});
      pipe_->read(std::move(allocation), [read](const tp::Error& failed) {
        if (failed) std::_Exit(0);
        read->Add();
      });
      ReadOne(data, size, read);
    });
  }

  const std::shared_ptr<tp::Context> context_;
  std::shared_ptr<tp::Listener> listener_;
  std::shared_ptr<tp::Pipe> pipe_;
  Counter accepted_;
  uint64_t left_ = 0;
};

std::unique_ptr<End> MakePipeEnd(const Way& way) { return std::make_unique<PipeEnd>(way); }

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  return fusewire::bench::MainOfEnds(argc, argv, "p2p_tensorpipe", {"tcp", "shm"}, fusewire::bench::MakePipeEnd);
}
