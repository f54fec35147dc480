// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory for the tensors of steps, which come and go in the same sizes again and again: it is kept when they go.
// TensorFlow's own allocator asks malloc for aligned memory: malloc does not cache that by thread, but splits larger
// pieces for it and joins them again each time. More than is kept goes back to its slab (tensor_slabs.h).
// Home: any thread. Owns: what is kept, for as long as the process lives. Fails: as malloc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tensorflow/core/common_runtime/device.h>
#include <tensorflow/core/framework/allocator.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor_slabs.h"

namespace fusewire::tf {

class TensorPool final : public tensorflow::Allocator {
 public:
  static constexpr size_t kBytesMax = 256 << 10;  // larger memory is not kept
  // Of a shard. Each thread uses one of them, so that two threads seldom wait for each other.
  static constexpr size_t kKeptMax = 4 << 20, kShards = 8;

  static TensorPool* Global();
  explicit TensorPool(size_t slabs_max = TensorSlabs::kSlabsMax);
  ~TensorPool() override;
  TensorPool(const TensorPool&) = delete;

  std::string Name() override { return "fusewire"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override;
  void DeallocateRaw(void* at) override;
  // By the calling thread's shard.
  size_t kept();
  size_t slab_bytes() { return slabs_.bytes(); }

 private:
  // Sizes up to 1 KiB are multiples of 64 bytes; then there are four for each power of two.
  static constexpr size_t kSizes = TensorSlabs::kSizes;
  static size_t SizeNumber(size_t bytes);
  static size_t BytesOf(size_t number);
  // In front of a tensor that is not from a slab.
  struct Header {
    void* begin;    // of the memory
    size_t number;  // of its size; kSizes: it is not kept
  };
  static Header* HeaderOf(void* at) { return static_cast<Header*>(at) - 1; }
  struct Kept {
    Kept* next;
  };
  struct alignas(64) Shard {
    Mutex mutex;
    std::array<Kept*, kSizes> first FUSEWIRE_GUARDED_BY(mutex){};
    size_t bytes FUSEWIRE_GUARDED_BY(mutex) = 0;
    unsigned returns FUSEWIRE_GUARDED_BY(mutex) = 0;
  };
  Shard& Mine();
  void GiveBack(void* at);

  TensorSlabs slabs_;
  std::array<Shard, kShards> shards_;
};

// A processor whose tensors come from the pool; all else is that of the device behind it, which outlives it.
class PooledDevice final : public tensorflow::Device {
 public:
  // Null: it is not a CPU.
  static std::unique_ptr<PooledDevice> Of(tensorflow::Device* device);

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attributes) override;
  tensorflow::Allocator* GetScopedAllocator(tensorflow::AllocatorAttributes attributes, int64_t step) override {
    return device_->GetScopedAllocator(attributes, step);
  }
  tensorflow::ScopedAllocatorMgr* GetScopedAllocatorMgr() const override { return device_->GetScopedAllocatorMgr(); }
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return device_->tensorflow_cpu_worker_threads();
  }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return device_->eigen_cpu_device(); }
  bool has_eigen_cpu_device() const override { return device_->has_eigen_cpu_device(); }
  tensorflow::DeviceBase* UnderlyingDevice() override { return device_->UnderlyingDevice(); }
  const tensorflow::DeviceBase* UnderlyingDevice() const override { return device_->UnderlyingDevice(); }
  TfStatus MakeTensorFromProto(const tensorflow::TensorProto& proto, const tensorflow::AllocatorAttributes attributes,
                               tensorflow::Tensor* tensor) override {
    return device_->MakeTensorFromProto(proto, attributes, tensor);
  }
  void Compute(tensorflow::OpKernel* kernel, tensorflow::OpKernelContext* context) override {
    device_->Compute(kernel, context);
  }
  void ComputeAsync(tensorflow::AsyncOpKernel* kernel, tensorflow::OpKernelContext* context,
                    tensorflow::AsyncOpKernel::DoneCallback done) override {
    device_->ComputeAsync(kernel, context, std::move(done));
  }
  TfStatus Sync() override { return device_->Sync(); }
  TfStatus TryGetDeviceContext(tensorflow::DeviceContext** context) override {
    return device_->TryGetDeviceContext(context);
  }
  tensorflow::ResourceMgr* resource_manager() override { return device_->resource_manager(); }

 private:
  explicit PooledDevice(tensorflow::Device* device);

  tensorflow::Device* const device_;
};

}  // namespace fusewire::tf
