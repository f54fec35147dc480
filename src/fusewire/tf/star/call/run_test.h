// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests of the worker's end of parts: the operation of star/call/run_op.cc, and a step of it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include <tensorflow/core/framework/cancellation.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/public/version.h>
#include "fusewire/tf/bridge/status.h"
#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/heads/varint.h"
#include "fusewire/tf/receive/step_test.h"

namespace fusewire::tf {

// Of one float tensor to one other.
// `kept`: values that it leaves at the same parameter server; `taken`: that an earlier part has left there.
inline std::unique_ptr<tensorflow::OpKernel> MakeRunOp(tensorflow::Device* device, const std::string& piece,
                                                       bool is_alone, int kept = 0, int taken = 0) {
  tensorflow::NodeDef node;
  node.set_name("run");
  node.set_op("_FusewireRun");
  node.add_input("arg");
  auto& attributes = *node.mutable_attr();
  for (const char* types : {"Tin", "Tout"}) attributes[types].mutable_list()->add_type(tensorflow::DT_FLOAT);
  attributes["task"].set_s(kPeerTask);
  attributes["piece"].set_s(piece);
  attributes["shown"].set_s("weights");
  attributes["fingerprint"].set_s("its fingerprint");
  attributes["holders"].mutable_list();
  if (kept > 0) attributes["holders"].mutable_list()->add_s(kPeerTask);
  attributes["kept"].set_i(kept);
  attributes["taken"].set_i(taken);
  attributes["alone"].set_b(is_alone);
  TfStatus made;
  auto kernel = tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, device, tensorflow::cpu_allocator(), node,
                                           TF_GRAPH_DEF_VERSION, &made);
  EXPECT_TRUE(made.ok()) << made;
  return kernel;
}

// shared_ptr: all operations of a step run in it.
using StepPtr = std::shared_ptr<Step>;

// One operation, from when it is made: of a step of its own, or of one with others. It lives until its end.
class RunningOp {
 public:
  RunningOp(StepTask* task, tensorflow::OpKernel* kernel, int64_t number, const tensorflow::Tensor& input,
            tensorflow::CancellationManager* cancellation = nullptr)
      : RunningOp(std::make_shared<Step>(task, number, "graph"), task, kernel, number, input, cancellation) {}
  RunningOp(StepPtr step, StepTask* task, tensorflow::OpKernel* kernel, int64_t number, const tensorflow::Tensor& input,
            tensorflow::CancellationManager* cancellation = nullptr)
      : step_(std::move(step)), input_(input), value_(&input_) {
    params_.device = task->cpu();
    params_.op_kernel = kernel;
    params_.rendezvous = &**step_;
    params_.cancellation_manager = cancellation;
    params_.step_id = number;
    params_.inputs = absl::Span<const tensorflow::TensorValue>(&value_, 1);
    params_.output_attr_array = &attributes_;
    context_ = std::make_unique<tensorflow::OpKernelContext>(&params_);
    kernel->AsAsync()->ComputeAsync(context_.get(), [this] { ends.Add(); });
  }

  TfStatus status() const { return context_->status(); }
  std::string message() const { return std::string(context_->status().message()); }
  const tensorflow::Tensor& output() { return *context_->mutable_output(0); }

  Ends ends;

 private:
  const StepPtr step_;
  tensorflow::Tensor input_;
  tensorflow::TensorValue value_;
  tensorflow::AllocatorAttributes attributes_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
};

// The operation beside a parameter server that the test plays.
constexpr uint64_t kPart = 17;  // its number at the parameter server

class RunOpTest : public testing::Test {
 protected:
  explicit RunOpTest(int64_t patience_ns = 2 * kSecondNs, int64_t recovery_ns = 0)
      : on_(true, patience_ns, recovery_ns) {}
  std::unique_ptr<RunningOp> Start(tensorflow::CancellationManager* cancellation = nullptr) {
    return std::make_unique<RunningOp>(&on_.task, kernel_.get(), ++last_step_, Ramp(3, 1), cancellation);
  }
  // The next question that comes to the parameter server.
  DataWorld::Asked* Next(uint16_t method) {
    if (!on_.world.AwaitAsked(++questions_)) {
      ADD_FAILURE() << "nothing was asked";
      return nullptr;
    }
    DataWorld::Asked* asked = &on_.world.asked[questions_ - 1];
    EXPECT_EQ(asked->method, method);
    return asked;
  }
  static void AnswerWith(DataWorld::Asked* asked, const TfStatus& status, const std::string& rest = "",
                         Buffers body = Buffers()) {
    std::string head;
    AppendTfStatus(status, &head);
    head += rest;
    asked->reply.Send(Status::Ok(), head, std::move(body));
  }
  static RunHead HeadOf(const DataWorld::Asked& run) {
    VarReader reader{ConstBytes(run.head)};
    RunHead head;
    EXPECT_TRUE(DecodeRunHead(&reader, &head).ok());
    return head;
  }
  static void SayPlaced(DataWorld::Asked* asked, uint64_t id, Again again = Again::kNever) {
    std::string head;
    AppendFixed64(&head, id);
    if (again != Again::kNever) head.push_back(static_cast<char>(again));
    AnswerWith(asked, TfStatus(), head);
  }
  static void SayResult(DataWorld::Asked* asked, const tensorflow::Tensor& result) {
    std::string head;
    Buffers body;
    EXPECT_TRUE(AppendTensor(result, &head, &body).ok());
    AnswerWith(asked, TfStatus(), head, std::move(body));
  }
  // As in the first step: the server finds the part by its fingerprint.
  void PlaceIt(Again again = Again::kNever) {
    auto running = Start();
    SayPlaced(Next(kPlacePart), kPart, again);
    SayResult(Next(kRunPart), Ramp(1, 1));
    ASSERT_TRUE(AwaitEnd(*running));
    ASSERT_TRUE(running->status().ok()) << running->status();
  }
  bool AwaitEnd(const RunningOp& running) {
    return on_.world.RunUntilWithThreads([&running] { return running.ends.count() > 0; });
  }
  void ExpectCancelled(RunningOp* running) {
    ASSERT_TRUE(AwaitEnd(*running));
    Settle();
    EXPECT_EQ(running->ends.count(), 1);
    EXPECT_TRUE(absl::IsCancelled(running->status())) << running->status();
  }
  void Settle() { on_.world.world.RunFor(kSecondNs); }

  StepWorld on_;
  const std::unique_ptr<tensorflow::OpKernel> kernel_ = MakeRunOp(on_.task.cpu(), "the piece", /*is_alone=*/false);
  int64_t last_step_ = 1000;
  size_t questions_ = 0;
};

}  // namespace fusewire::tf
