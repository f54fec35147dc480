// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "service.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/wire/meta.h"

namespace fusewire::demo {
namespace {

constexpr uint16_t kFloat = 1;  // TensorFlow's number for float32

// Lands every pushed tensor in the same memory, as a parameter server's gradient buffer would.
class GradientSink final : public rpc::RequestSink {
 public:
  GradientSink(std::vector<uint8_t>* memory, uint64_t bytes) {
    if (memory->size() < bytes) memory->resize(bytes);
    part_ = Bytes(memory->data(), bytes);
  }
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }

 private:
  Bytes part_;
};

struct Model {
  std::vector<std::vector<uint8_t>> tensors;
  std::string head;  // the description of the tensors
  std::vector<uint8_t> gradients;

  Model() {
    std::vector<wire::TensorMeta> metas;
    for (int i = 0; i < kTensors; ++i) {
      std::vector<uint8_t> tensor(TensorBytes(i));
      for (size_t at = 0; at < tensor.size(); ++at) tensor[at] = TensorByte(i, at);
      wire::TensorMeta meta;
      meta.type = kFloat;
      meta.name = "layer_" + std::to_string(i) + "/kernel";
      meta.bytes = tensor.size();
      meta.dims = {static_cast<int64_t>(tensor.size() / sizeof(float))};
      metas.push_back(std::move(meta));
      tensors.push_back(std::move(tensor));
    }
    wire::AppendTensors(metas, &head);
  }
};

std::vector<rpc::Method> Methods(Model* model) {
  std::vector<rpc::Method> methods(3);
  methods[0].number = kEcho;
  methods[0].name = "echo";
  methods[0].handle = [](rpc::Request request, rpc::Reply reply) { reply.Send(Status::Ok(), request.head); };
  methods[1].number = kTake;
  methods[1].name = "take";
  methods[1].make_sink = [model](ConstBytes,
                                 const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
    return std::unique_ptr<rpc::RequestSink>(std::make_unique<GradientSink>(&model->gradients, sizes.total()));
  };
  methods[1].handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
  methods[2].number = kParameters;
  methods[2].name = "parameters";
  methods[2].handle = [model](rpc::Request, rpc::Reply reply) {
    // By reference: the model outlives every reply, so there is nothing to release.
    Buffers body;
    for (auto& tensor : model->tensors)
      body.push_back(Buffer::Wrap(Bytes(tensor.data(), tensor.size()), nullptr, nullptr));
    reply.Send(Status::Ok(), model->head, std::move(body));
  };
  return methods;
}

}  // namespace

size_t TensorBytes(int index) {
  return (1000 + static_cast<size_t>(index) * 4987 % 99000) / sizeof(float) * sizeof(float);
}

size_t AllTensorBytes() {
  size_t sum = 0;
  for (int i = 0; i < kTensors; ++i) sum += TensorBytes(i);
  return sum;
}

uint8_t TensorByte(int index, size_t at) {
  return static_cast<uint8_t>(static_cast<size_t>(index) * 31 + at * 7 + (at >> 8));
}

void ServeFusewire(uint16_t port, const std::function<void(uint16_t)>& ready) {
  Model model;
  task::TaskOptions options;
  options.pipe.cluster = "demo";
  options.pipe.name = "ps:0";
  options.wire = task::TransportChoice::kTcp;  // as for the raw sockets
  options.pool.reactors = 1;
  auto task = task::Task::Start(std::move(options));
  if (!task.ok()) {
    std::fprintf(stderr, "%s\n", task.status().ToString().c_str());
    return;
  }
  auto server = rpc::Server::Open(*task.value(), transport::Address{"127.0.0.1", port}, Methods(&model));
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return;
  }
  ready(server.value()->address().port);
  for (;;) pause();  // until this process is killed
}

}  // namespace fusewire::demo
