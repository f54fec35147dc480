// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/collective/groups.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/tf/bridge/threads_test.h"
#include "fusewire/tf/collective/members_test.h"
#include "fusewire/tf/peer/marks.h"
#include "fusewire/tf/peer/recorded_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/public/session_options.h>
#include <tensorflow/core/public/version.h>

namespace fusewire::tf {
namespace {

using tensorflow::Tensor;
using testing::HasSubstr;

// A task with its manager of executors, in one step.
class Executing {
 public:
  explicit Executing(int rank)
      : member(rank),
        devices(tensorflow::DeviceFactory::NewDevice("CPU", tensorflow::SessionOptions(), MemberTask(rank))),
        manager(MakeCollectiveExecutorMgr(tensorflow::ConfigProto(), &devices, member.cache(), MemberTask(rank),
                                          member.groups)),
        executor(manager->FindOrCreate(7), /*inherit_ref=*/true),
        rank_(rank) {
    tensorflow::NodeDef node;
    node.set_name("merge");
    node.set_op("Add");
    for (const char* input : {"a", "b"}) node.add_input(input);
    (*node.mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
    TfStatus made;
    merge_ = tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, cpu(), tensorflow::cpu_allocator(), node,
                                        TF_GRAPH_DEF_VERSION, &made);
    EXPECT_TRUE(made.ok()) << made;
  }
  ~Executing() {
    if (implementation_ != nullptr) implementation_->Unref();
  }

  tensorflow::Device* cpu() { return devices.ListDevices().front(); }

  // A sum, as the executor runs it; `ends` counts one when it has ended.
  void Reduce(const Tensor& in, Tensor* out) {
    params_.reset(new tensorflow::CollectiveParams);
    params_->group = PairOfMembers();
    params_->instance.type = tensorflow::REDUCTION_COLLECTIVE;
    params_->instance.data_type = tensorflow::DT_FLOAT;
    params_->default_rank = rank_;
    params_->merge_op = merge_.get();
    of_kernel_.device = cpu();
    of_kernel_.cancellation_manager = &cancellation;
    kernel_ = std::make_unique<tensorflow::OpKernelContext>(&of_kernel_, 0);
    input_ = in;
    TfStatus found = tensorflow::CollectiveRegistry::Lookup("Fusewire", &implementation_);
    ASSERT_TRUE(found.ok()) << found;
    // shared_ptr: as TensorFlow hands it over.
    auto context = std::make_shared<tensorflow::CollectiveContext>(
        executor.get(), nullptr, &devices, kernel_.get(), &of_kernel_, params_.get(), "7:sum", 7, &input_, out);
    ASSERT_TRUE(implementation_->InitializeCollectiveContext(std::move(context)).ok());
    implementation_->Run([this](const TfStatus& end) {
      status = end;
      ends.Add();
    });
  }

  Member member;
  tensorflow::StaticDeviceMgr devices;
  const std::unique_ptr<tensorflow::CollectiveExecutorMgrInterface> manager;
  tensorflow::CollectiveExecutor::Handle executor;
  tensorflow::CancellationManager cancellation;
  Ends ends;
  TfStatus status;

 private:
  const int rank_;
  std::unique_ptr<tensorflow::OpKernel> merge_;
  TfRef<tensorflow::CollectiveParams> params_;
  tensorflow::OpKernelContext::Params of_kernel_;
  std::unique_ptr<tensorflow::OpKernelContext> kernel_;
  Tensor input_;
  tensorflow::CollectiveImplementationInterface* implementation_ = nullptr;
};

class ExecutorTest : public testing::Test {
 protected:
  ExecutorTest() { RegisterCollectives(); }
  // Each asks where the other is.
  void Meet() {
    for (int rank = 0; rank < 2; ++rank) {
      FoundGroup found;
      ranks_[rank].member.groups->Find(PairOfMembers(), rank, found.Take());
      ASSERT_EQ(ranks_[rank].member.grpc().asked.size(), 1u);
      ranks_[rank].member.grpc().Answer(ranks_[1 - rank].member.Words());
      ASSERT_TRUE(found.status.ok()) << found.status;
      ASSERT_NE(found.group, nullptr);
    }
  }
  static Tensor Filled(int64_t count, float value) {
    Tensor tensor(tensorflow::DT_FLOAT, tensorflow::TensorShape({count}));
    tensor.flat<float>().setConstant(value);
    return tensor;
  }

  Executing ranks_[2] = {Executing(0), Executing(1)};
};

TEST_F(ExecutorTest, AReductionIsOursWhereBothHaveThePlugin) {
  Meet();
  Tensor sums[2] = {Filled(5000, 0), Filled(5000, 0)};
  for (int rank = 0; rank < 2; ++rank) ranks_[rank].Reduce(Filled(5000, static_cast<float>(rank + 1)), &sums[rank]);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks_[rank].ends.Await(1));
    ASSERT_TRUE(ranks_[rank].status.ok()) << ranks_[rank].status;
    EXPECT_EQ(sums[rank].flat<float>()(0), 3);
    EXPECT_EQ(sums[rank].flat<float>()(4999), 3);
  }
}

TEST_F(ExecutorTest, AnOperationIsRecordedAtEachMemberAsTheSame) {
  Recorded recorded;
  Meet();
  Tensor sums[2] = {Filled(5000, 0), Filled(5000, 0)};
  ranks_[0].Reduce(Filled(5000, 1), &sums[0]);
  EXPECT_EQ(recorded.open(), 1u);  // the other has not begun it
  ranks_[1].Reduce(Filled(5000, 2), &sums[1]);
  for (Executing& rank : ranks_) ASSERT_TRUE(rank.ends.Await(1));
  const std::vector<Recorded::One> all = recorded.Read();
  ASSERT_EQ(all.size(), 2u) << recorded.Words();
  EXPECT_EQ(recorded.open(), 0u);
  EXPECT_EQ(all[0].seen.flow, all[1].seen.flow);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(all[i].words, HasSubstr("collective " + ShortTask(MemberTask(static_cast<int>(i))) + " 2 ranks"));
    EXPECT_EQ(all[i].seen.bytes, 20'000u);
    EXPECT_EQ(all[i].seen.end, observe::End::kOk);
  }
}

TEST_F(ExecutorTest, WithoutAGroupThereIsNoOperation) {
  Tensor sum = Filled(4, 0);
  ranks_[0].Reduce(Filled(4, 1), &sum);
  ASSERT_EQ(ranks_[0].ends.count(), 1);
  EXPECT_TRUE(absl::IsInternal(ranks_[0].status)) << ranks_[0].status;
}

TEST_F(ExecutorTest, AResultOfAnotherSizeIsRefused) {
  Meet();
  Tensor sum = Filled(3, 0);
  ranks_[0].Reduce(Filled(4, 1), &sum);
  ASSERT_EQ(ranks_[0].ends.count(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(ranks_[0].status)) << ranks_[0].status;
  EXPECT_THAT(std::string(ranks_[0].status.message()), HasSubstr("differ in size"));
}

TEST_F(ExecutorTest, ACancelEndsWhatWaitsForTheOther) {
  Meet();
  Tensor sum = Filled(4, 0);
  ranks_[0].Reduce(Filled(4, 1), &sum);
  ranks_[0].cancellation.StartCancel();
  ASSERT_TRUE(ranks_[0].ends.Await(1));
  EXPECT_TRUE(absl::IsCancelled(ranks_[0].status)) << ranks_[0].status;
}

TEST_F(ExecutorTest, AnAbortEndsCurrentAndLaterOperations) {
  Meet();
  Tensor sum = Filled(4, 0);
  ranks_[0].Reduce(Filled(4, 1), &sum);
  ranks_[0].executor.get()->StartAbort(absl::UnavailableError("a task was lost"));
  ASSERT_TRUE(ranks_[0].ends.Await(1));
  EXPECT_THAT(std::string(ranks_[0].status.message()), HasSubstr("a task was lost"));
}

}  // namespace
}  // namespace fusewire::tf
