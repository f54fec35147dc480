// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Under TLS: TensorFlow's gRPC clients of eager contexts, which send no tensor. CopyEagerTensorsOverTheDataPort has
// made TensorFlow copy tensors by _Send and _Recv. Whatever still has one in its message, or would get one in the
// answer, is refused. What a message may have are programs (with their constants), and handles of variables.
// Home: any thread. Owns: the gRPC clients. Fails: a refused call, with the reason; any other, as gRPC's.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <tensorflow/core/distributed_runtime/eager/eager_client.h>
#include "fusewire/base/mutex.h"
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

class EagerClients final : public tensorflow::eager::EagerClientCache {
 public:
  explicit EagerClients(std::unique_ptr<tensorflow::eager::EagerClientCache> grpc);

  // A task's is the same each time: TensorFlow compares them.
  TfStatus GetClient(const std::string& target,
                     tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>* client) override;

 private:
  const std::unique_ptr<tensorflow::eager::EagerClientCache> grpc_;
  Mutex mutex_;
  std::map<std::string, tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>> clients_
      FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::tf
