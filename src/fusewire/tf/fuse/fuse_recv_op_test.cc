// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The operation of fuse/fuse_recv_op.cc beside a task that the test plays.
#include <memory>
#include <string>
#include <vector>

#include "fusewire/tf/receive/step_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/public/version.h>

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

// One step of an operation that receives these.
class FuseRecvTest : public testing::Test {
 protected:
  std::unique_ptr<tensorflow::OpKernel> Make(const std::vector<std::string>& keys, int outputs, TfStatus* made) {
    tensorflow::NodeDef node;
    node.set_name("fused");
    node.set_op("_FuseRecv");
    auto& attributes = *node.mutable_attr();
    for (int i = 0; i < outputs; ++i) attributes["T"].mutable_list()->add_type(tensorflow::DT_FLOAT);
    for (const std::string& key : keys) attributes["keys"].mutable_list()->add_s(key);
    return tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, on_.task.cpu(), tensorflow::cpu_allocator(), node,
                                      TF_GRAPH_DEF_VERSION, made);
  }
  void Start(const std::vector<std::string>& edges) {
    std::vector<std::string> keys;
    for (const std::string& edge : edges) keys.push_back(KeyOf(edge));
    TfStatus made;
    kernel_ = Make(keys, static_cast<int>(keys.size()), &made);
    ASSERT_TRUE(made.ok()) << made;
    attributes_.resize(edges.size());
    params_.device = on_.task.cpu();
    params_.op_kernel = kernel_.get();
    params_.rendezvous = &*step_;
    params_.step_id = kStep;
    params_.output_attr_array = attributes_.data();
    context_ = std::make_unique<tensorflow::OpKernelContext>(&params_);
    kernel_->AsAsync()->ComputeAsync(context_.get(), [this] { ends_.Add(); });
  }
  bool AwaitEnd() {
    return on_.world.RunUntilWithThreads([this] { return ends_.count() > 0; });
  }
  void Reply(Answer& answer) { on_.world.asked[0].reply.Send(Status::Ok(), answer.head, std::move(answer.body)); }

  StepWorld on_;
  Step step_{&on_.task};
  Ends ends_;
  std::unique_ptr<tensorflow::OpKernel> kernel_;
  std::vector<tensorflow::AllocatorAttributes> attributes_;
  tensorflow::OpKernelContext::Params params_;
  std::unique_ptr<tensorflow::OpKernelContext> context_;
};

TEST_F(FuseRecvTest, RequestsAllInOneCallAndWaitsForAll) {
  on_.KnowPeer();
  Start({"first", "second"});
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  Answer part;
  part.Value(1, Ramp(10'000, 5));
  on_.world.asked[0].reply.SendPart(part.head, std::move(part.body));
  on_.world.world.RunFor(kSecondNs);
  EXPECT_EQ(ends_.count(), 0);
  Reply(Answer().Value(0, Ramp(2, 1)));
  ASSERT_TRUE(AwaitEnd());
  ASSERT_TRUE(context_->status().ok()) << context_->status();
  EXPECT_EQ(on_.CountAsked(kReceive), 1u);
  EXPECT_EQ(context_->mutable_output(0)->flat<float>()(1), 2);
  EXPECT_EQ(context_->mutable_output(1)->flat<float>()(9'999), 10'004);
}

TEST_F(FuseRecvTest, AnErrorOfOneIsTheStepsOnceAllHaveEnded) {
  on_.KnowPeer();
  Start({"first", "second"});
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  Reply(Answer().Error(0, absl::OutOfRangeError("the queue is closed")).Value(1, Ramp(1, 1)));
  ASSERT_TRUE(AwaitEnd());
  EXPECT_EQ(ends_.count(), 1);
  EXPECT_TRUE(absl::IsOutOfRange(context_->status())) << context_->status();
}

TEST_F(FuseRecvTest, ADeadTensorIsAnErrorOfTheMarks) {
  on_.KnowPeer();
  Start({"first", "second"});
  ASSERT_TRUE(on_.world.AwaitAsked(1));
  Reply(Answer().Dead(0).Value(1, Ramp(1, 1)));
  ASSERT_TRUE(AwaitEnd());
  EXPECT_TRUE(absl::IsInternal(context_->status())) << context_->status();
  EXPECT_THAT(std::string(context_->status().message()), HasSubstr("dead tensor"));
}

TEST_F(FuseRecvTest, RefusesInvalidOrTooFewKeys) {
  TfStatus made;
  Make({KeyOf("first")}, 2, &made);
  EXPECT_TRUE(absl::IsInvalidArgument(made)) << made;
  EXPECT_THAT(std::string(made.message()), HasSubstr("has 1 keys and 2 outputs"));
  Make({"no key"}, 1, &made);
  EXPECT_FALSE(made.ok());
}

}  // namespace
}  // namespace fusewire::tf
