// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Tests: star/serve/arrivals.cc, star/serve/row_sums.cc
#include "fusewire/tf/star/serve/program.h"

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/common_runtime/process_function_library_runtime.h>
#include <tensorflow/core/framework/queue_interface.h>
#include <tensorflow/core/lib/core/threadpool.h>
#include <tensorflow/core/public/session_options.h>
#include "fusewire/tf/star/cut/sketch_test.h"
#include "fusewire/tf/star/serve/part.h"

namespace fusewire::tf {
namespace {

using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using testing::ElementsAre;

// A graph with kernels on a processor of its own.
class Bench : public Sketch {
 public:
  Bench() {
    tensorflow::SessionOptions options;
    std::unique_ptr<tensorflow::Device> device =
        tensorflow::DeviceFactory::NewDevice("CPU", options, "/job:ps/replica:0/task:0");
    device_ = device.get();
    devices_ = std::make_unique<tensorflow::StaticDeviceMgr>(std::move(device));
    libraries_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(devices_.get(), tensorflow::Env::Default(),
                                                                             nullptr, 0, &graph.flib_def(),
                                                                             tensorflow::OptimizerOptions(), nullptr);
  }

  Node* Arg(int index, tensorflow::DataType type = DT_FLOAT) {
    return Add(NodeBuilder("arg" + std::to_string(index), "_Arg").Attr("T", type).Attr("index", index), kPs);
  }
  // A variable of version 1.
  Node* Reference(const std::string& shared_name) {
    return Add(NodeBuilder("variable", "VariableV2")
                   .Attr("dtype", DT_FLOAT)
                   .Attr("shape", tensorflow::TensorShape())
                   .Attr("shared_name", shared_name),
               kPs);
  }
  void Ret(int index, const Out& value) {
    Add(NodeBuilder("ret" + std::to_string(index), "_Retval").Input(value).Attr("index", index), kPs);
  }

  Program* Made() {
    if (program_ != nullptr) return program_.get();
    tensorflow::FixupSourceAndSinkEdges(&graph);
    Program::Place place;
    place.device = device_;
    place.library = libraries_->GetFLR(device_->name());
    place.is_own = is_own;
    place.runner = [this](std::function<void()> work) { is_own ? pool_.Schedule(std::move(work)) : work(); };
    std::map<const Node*, OpKernel*> kernel_of;
    for (Node* node : graph.op_nodes()) {
      if (node->IsArg() || node->IsRetval()) continue;
      OpKernel* kernel = nullptr;
      TfStatus made = place.library->CreateKernel(node->properties(), &kernel);
      EXPECT_TRUE(made.ok()) << made;
      kernels_.emplace_back(kernel);
      kernel_of[node] = kernel;
    }
    program_ = Program::Make(graph, place, [&kernel_of](const Node& node) { return kernel_of[&node]; });
    return program_.get();
  }

  Node* Queue(const std::string& name) {
    return Add(NodeBuilder(name, "FIFOQueueV2").Attr("component_types", {DT_FLOAT}).Attr("shared_name", name), kPs);
  }
  Node* Put(const std::string& name, Node* queue, const Out& value) {
    return Add(NodeBuilder(name, "QueueEnqueueV2").Input(queue).Input(std::vector<Out>{value}), kPs);
  }
  Node* Taken(const std::string& name, Node* queue, const std::vector<Node*>& controls = {}) {
    NodeBuilder builder(name, "QueueDequeueV2");
    builder.Input(queue).Attr("component_types", {DT_FLOAT});
    for (Node* control : controls) builder.ControlInput(control);
    return Add(builder, kPs);
  }

  // Its end is awaited, for a minute at most.
  struct Started {
    PartRun run;
    std::promise<TfStatus> end;
    std::future<TfStatus> ended = end.get_future();
    bool HasEnded() { return ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
    TfStatus End() {
      const bool has_ended = ended.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
      EXPECT_TRUE(has_ended) << "the run does not end";
      if (!has_ended) run.cancellation.StartCancel();
      return ended.get();
    }
  };
  void Start(Started* started, std::vector<Tensor> args) {
    started->run.step = ++step_;
    started->run.args = std::move(args);
    Made()->Run(&started->run, [started](const TfStatus& status) { started->end.set_value(status); });
  }
  // Outside of the program.
  void PutNow(const std::string& queue, float value) {
    tensorflow::QueueInterface* found = nullptr;
    ASSERT_TRUE(
        device_->resource_manager()->Lookup(device_->resource_manager()->default_container(), queue, &found).ok());
    tensorflow::core::ScopedUnref unref(found);
    tensorflow::OpKernelContext::Params params;
    tensorflow::CancellationManager cancellation;
    params.device = device_;
    params.cancellation_manager = &cancellation;
    params.op_kernel = kernels_.front().get();
    OpKernelContext context(&params);
    std::promise<void> put;
    found->TryEnqueue({Tensor(value)}, &context, [&put] { put.set_value(); });
    put.get_future().wait();
  }

  bool is_own = false;

  // The results of a run on scalars; -1 for a dead one.
  std::vector<float> Values(std::vector<Tensor> args, TfStatus* status = nullptr) {
    Started started;
    Start(&started, std::move(args));
    const TfStatus ended = started.End();
    const PartRun& run = started.run;
    if (status != nullptr) *status = ended;
    EXPECT_TRUE(status != nullptr || ended.ok()) << ended;
    std::vector<float> values;
    for (const Tensor& ret : run.rets) values.push_back(ret.dims() == 0 ? ret.scalar<float>()() : -1);
    return values;
  }

 private:
  tensorflow::Device* device_ = nullptr;
  std::unique_ptr<tensorflow::StaticDeviceMgr> devices_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> libraries_;
  std::vector<std::unique_ptr<OpKernel>> kernels_;
  std::unique_ptr<Program> program_;
  int64_t step_ = 0;
  tensorflow::thread::ThreadPool pool_{tensorflow::Env::Default(), "test", 2};
};

using Floats = std::vector<float>;

TEST(StarProgram, ComputesWhatIsDrawn) {
  Bench bench;
  Node* sum = bench.Sum("sum", Sketch::kPs, bench.Arg(0), bench.Arg(1));
  bench.Ret(0, bench.Op("negated", "Neg", Sketch::kPs, {sum}));
  bench.Ret(1, sum);
  for (float value : {1.0F, 5.0F})
    EXPECT_EQ(bench.Values({Tensor(value), Tensor(2.0F)}), (Floats{-value - 2, value + 2}));
}

// A kernel may write its output over an input if it has the only reference.
TEST(StarProgram, AKernelDoesNotOverwriteAnInputOfAnother) {
  Bench bench;
  Node* arg = bench.Arg(0);
  Node* constant = bench.Constant("constant", Sketch::kPs, 10.0F);
  Node* first = bench.Sum("a_first", Sketch::kPs, arg, constant);
  Node* second = bench.Sum("b_second", Sketch::kPs, arg, constant);
  bench.Ret(0, bench.Op("c_negated", "Neg", Sketch::kPs, {first}));
  bench.Ret(1, bench.Sum("d_sum", Sketch::kPs, first, second));
  bench.Ret(2, constant);
  bench.Ret(3, arg);
  Tensor mine(1.0F);
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(bench.Values({mine}), (Floats{-11, 22, 10, 1}));
  EXPECT_EQ(mine.scalar<float>()(), 1.0F);
}

TEST(StarProgram, ArgumentOnlyForAControlEdgeIsDropped) {
  Bench bench;
  Node* arg = bench.Arg(0);
  bench.Ret(0, bench.Op("negated", "Neg", Sketch::kPs, {bench.Arg(1)}, {arg}));
  EXPECT_EQ(bench.Values({Tensor(1.0F), Tensor(2.0F)}), (Floats{-2}));
}

TEST(StarProgram, TakesTheBranchThatIsChosen) {
  Bench bench;
  Node* value = bench.Arg(0);
  Node* either = bench.Op("either", "Switch", Sketch::kPs, {value, bench.Arg(1, DT_BOOL)});
  Node* negated = bench.Op("negated", "Neg", Sketch::kPs, {{either, 0}});
  Node* squared = bench.Op("squared", "Square", Sketch::kPs, {{either, 1}});
  Node* merged = bench.Merge("merged", Sketch::kPs, {negated, squared});
  bench.Ret(0, merged);
  bench.Ret(1, squared);
  bench.Ret(2, bench.Op("after", "Neg", Sketch::kPs, {value}, {negated}));
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(true)}), (Floats{9, 9, -1}));
    EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(false)}), (Floats{-3, -1, -3}));
  }
}

// It has a constant's inputs, none, but for what it waits for.
TEST(StarProgram, ConstantOfABranchIsDeadInTheOther) {
  Bench bench;
  Node* either = bench.Op("either", "Switch", Bench::kPs, {bench.Arg(0, DT_BOOL), bench.Arg(1, DT_BOOL)});
  std::vector<Bench::Out> values;
  for (int branch : {0, 1}) {
    std::string name = std::to_string(branch);
    Node* pivot = bench.Op("pivot" + name, "Identity", Bench::kPs, {{either, branch}});
    Node* constant = bench.Constant("constant" + name, Bench::kPs, 10.0F + static_cast<float>(branch));
    bench.graph.AddControlEdge(pivot, constant);
    values.emplace_back(constant);
  }
  bench.Ret(0, bench.Merge("merged", Bench::kPs, values));
  for (bool choice : {false, true, false})
    EXPECT_THAT(bench.Values({Tensor(choice), Tensor(choice)}), ElementsAre(choice ? 11 : 10));
}

TEST(StarProgram, NestedBranchesDieTogether) {
  Bench bench;
  Node *outer = bench.Arg(1, DT_BOOL), *inner = bench.Arg(2, DT_BOOL);
  Node* first = bench.Op("first", "Switch", Sketch::kPs, {bench.Arg(0), outer});
  Node* inner_there = bench.Op("inner_there", "Switch", Sketch::kPs, {inner, outer});
  Node* second = bench.Op("second", "Switch", Sketch::kPs, {{first, 1}, {inner_there, 1}});
  Node* negated = bench.Op("negated", "Neg", Sketch::kPs, {{second, 0}});
  Node* squared = bench.Op("squared", "Square", Sketch::kPs, {{second, 1}});
  bench.Ret(0, bench.Merge("all", Sketch::kPs, {bench.Merge("some", Sketch::kPs, {negated, squared}), {first, 0}}));
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(true), Tensor(true)}), (Floats{9}));
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(true), Tensor(false)}), (Floats{-3}));
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(false), Tensor(true)}), (Floats{3}));
}

TEST(StarProgram, ReferencesAreThoseOfTheVariable) {
  Bench bench;
  Node* variable = bench.Reference("variable");
  Node* set = bench.Op("set", "Assign", Sketch::kPs, {variable, bench.Arg(0)});
  Node* more = bench.Op("more", "AssignAdd", Sketch::kPs, {set, bench.Arg(1)});
  bench.Ret(0, bench.Op("read", "Identity", Sketch::kPs, {variable}, {more}));
  bench.Ret(1, more);
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(2.0F)}), (Floats{5, 5}));
  EXPECT_EQ(bench.Values({Tensor(4.0F), Tensor(2.0F)}), (Floats{6, 6}));
}

// The error of TensorFlow's executor: programs catch it to initialize their variables.
TEST(StarProgram, VariableWithoutAValueIsRefusedByName) {
  for (bool is_returned_itself : {false, true}) {
    Bench bench;
    Node* variable = bench.Reference("unset");
    bench.Ret(0, is_returned_itself ? variable : bench.Op("read", "Identity", Sketch::kPs, {variable}));
    TfStatus status;
    bench.Values({}, &status);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("Attempting to use uninitialized value variable"));
  }
}

TEST(StarProgram, VariableIsAskedWhetherItHasAValue) {
  Bench bench;
  Node* variable = bench.Reference("unset");
  Node* is_set = bench.Op("is_set", "IsVariableInitialized", Sketch::kPs, {variable});
  bench.Ret(0, bench.Add(NodeBuilder("number", "Cast").Input(is_set).Attr("SrcT", DT_BOOL).Attr("DstT", DT_FLOAT),
                         Sketch::kPs));
  EXPECT_EQ(bench.Values({}), (Floats{0}));
}

TEST(StarProgram, AReadValueStaysWhenTheVariableChanges) {
  Bench bench;
  Node* variable = bench.Variable("resource", Sketch::kPs);
  Node* set = bench.Op("set", "AssignVariableOp", Sketch::kPs, {variable, bench.Arg(0)});
  Node* before = bench.Read("before", variable, {set});
  Node* update = bench.Update("update", variable, bench.Arg(1), {before});
  bench.Ret(0, before);
  bench.Ret(1, bench.Read("after", variable, {update}));
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(2.0F)}), (Floats{3, 5}));
  EXPECT_EQ(bench.Values({Tensor(4.0F), Tensor(2.0F)}), (Floats{4, 6}));
}

TEST(StarProgram, ErrorNamesTheOperationAndTheNextRunIsSound) {
  Bench bench;
  Node* variable = bench.Variable("later", Sketch::kPs);
  Node* early = bench.Op("early", "Switch", Sketch::kPs, {bench.Arg(0), bench.Arg(1, DT_BOOL)});
  bench.Op("set", "AssignVariableOp", Sketch::kPs, {variable, {early, 1}});
  bench.Ret(0, bench.Read("culprit", variable));
  TfStatus status;
  bench.Values({Tensor(3.0F), Tensor(false)}, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("culprit"), testing::HasSubstr("later")));
}

TEST(StarProgram, CancelledRunEnds) {
  Bench bench;
  bench.Ret(0, bench.Op("negated", "Neg", Sketch::kPs, {bench.Arg(0)}));
  PartRun run;
  run.args = {Tensor(1.0F)};
  run.cancellation.StartCancel();
  TfStatus ended;
  bench.Made()->Run(&run, [&ended](const TfStatus& end) { ended = end; });
  EXPECT_EQ(ended.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(bench.Values({Tensor(1.0F)}), (Floats{-1}));
}

TEST(StarProgram, IsNotForOperationsThatWait) {
  Bench bench;
  Node* queue = bench.Add(NodeBuilder("queue", "FIFOQueueV2").Attr("component_types", {DT_FLOAT}), Sketch::kPs);
  bench.Ret(0, bench.Add(NodeBuilder("taken", "QueueDequeueV2").Input(queue).Attr("component_types", {DT_FLOAT}),
                         Sketch::kPs));
  EXPECT_EQ(bench.Made(), nullptr);
}

// TensorFlow's executor would run both at once: what waits for the one that takes must not hold up the one that puts.
TEST(StarProgram, WhatWaitsIsPassedOver) {
  Bench bench;
  bench.is_own = true;
  Node *first = bench.Queue("first"), *second = bench.Queue("second");
  Node* taken = bench.Op("a_negated", "Neg", Sketch::kPs, {bench.Taken("a_taken", first)});
  Node* put = bench.Put("b_put", second, taken);
  Node* again = bench.Op("c_squared", "Square", Sketch::kPs, {bench.Taken("c_taken", second)});
  bench.Put("d_put", first, bench.Op("d_negated", "Neg", Sketch::kPs, {bench.Arg(0)}));
  bench.Ret(0, again);
  bench.Ret(1, bench.Op("e_after", "Neg", Sketch::kPs, {again}, {put}));
  for (float value : {3.0F, 4.0F}) EXPECT_EQ(bench.Values({Tensor(value)}), (Floats{value * value, -value * value}));
}

// The kernels of these block their thread, each until the other has run.
TEST(StarProgram, KernelsThatBlockRunOnThePool) {
  Bench bench;
  bench.is_own = true;
  Node* taken =
      bench.Add(NodeBuilder("a_taken", "Unstage").Attr("dtypes", {DT_FLOAT}).Attr("shared_name", "area"), Sketch::kPs);
  bench.Add(NodeBuilder("b_put", "Stage").Input(std::vector<Sketch::Out>{bench.Arg(0)}).Attr("shared_name", "area"),
            Sketch::kPs);
  bench.Ret(0, bench.Op("negated", "Neg", Sketch::kPs, {taken}));
  for (float value : {3.0F, 4.0F}) EXPECT_EQ(bench.Values({Tensor(value)}), (Floats{-value}));
}

TEST(StarProgram, ALongWaitIsLeftToThePool) {
  Bench waiting;
  waiting.is_own = true;
  Node* queue = waiting.Queue("shared");
  waiting.Ret(0, waiting.Op("negated", "Neg", Sketch::kPs, {waiting.Taken("taken", queue)}));
  Bench::Started started;
  waiting.Start(&started, {});  // returns, though nothing is there to be taken
  EXPECT_FALSE(started.HasEnded());
  waiting.PutNow("shared", 5.0F);
  const TfStatus status = started.End();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(started.run.rets[0].scalar<float>()(), -5.0F);
}

TEST(StarProgram, CancelEndsAWait) {
  Bench bench;
  bench.is_own = true;
  bench.Ret(0, bench.Taken("taken", bench.Queue("empty")));
  Bench::Started started;
  bench.Start(&started, {});
  EXPECT_FALSE(started.HasEnded());
  started.run.cancellation.StartCancel();
  EXPECT_EQ(started.End().code(), absl::StatusCode::kCancelled);
}

// All that has begun ends before the run does.
TEST(StarProgram, AnErrorEndsWhatIsUnderWay) {
  Bench bench;
  bench.is_own = true;
  bench.Ret(0, bench.Taken("taken", bench.Queue("empty")));
  bench.Ret(1, bench.Op("read", "Identity", Sketch::kPs, {bench.Reference("unset")}));
  TfStatus status;
  bench.Values({}, &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST(StarProgram, ABranchThatIsNotTakenWaitsForNothing) {
  Bench bench;
  bench.is_own = true;
  Node* queue = bench.Queue("queue");
  Node* either = bench.Op("either", "Switch", Sketch::kPs, {bench.Arg(0), bench.Arg(1, DT_BOOL)});
  Node* pivot = bench.Op("pivot", "Identity", Sketch::kPs, {{either, 1}});
  Node* merged = bench.Merge("merged", Sketch::kPs, {{either, 0}, bench.Taken("taken", queue, {pivot})});
  bench.Put("put", queue, {either, 1});
  bench.Ret(0, merged);
  EXPECT_EQ(bench.Values({Tensor(3.0F), Tensor(false)}), (Floats{3}));
  EXPECT_EQ(bench.Values({Tensor(4.0F), Tensor(true)}), (Floats{4}));
  EXPECT_EQ(bench.Values({Tensor(5.0F), Tensor(false)}), (Floats{5}));
}

// The sum of a gradient's rows by id as TensorFlow draws it: values, ids -> sums, distinct ids.
void DrawRowSum(Bench* bench, tensorflow::DataType type, tensorflow::DataType of_ids, bool has_shapes, int length) {
  const char* at = Sketch::kPs;
  const auto ints = [&](const std::string& name, std::vector<int32_t> numbers, bool is_scalar = false) {
    Tensor value(tensorflow::DT_INT32, is_scalar ? tensorflow::TensorShape() : tensorflow::TensorShape({1}));
    value.flat<int32_t>()(0) = numbers[0];
    return bench->Constant(name, at, value);
  };
  Node *values = bench->Arg(0, type), *ids = bench->Arg(1, of_ids);
  if (has_shapes) {
    Node* size = bench->Op("size", "Size", at, {ids});
    Node* count = bench->Op("count", "ExpandDims", at, {size, ints("dim", {0}, true)});
    Node* shape = bench->Add(NodeBuilder("shape_of_rows", "ConcatV2")
                                 .Input(std::vector<Sketch::Out>{count, ints("row", {length})})
                                 .Input(ints("axis", {0}, true)),
                             at);
    values = bench->Op("rows", "Reshape", at, {values, shape});
    ids = bench->Op("flat", "Reshape", at, {ids, count});
  }
  Node* unique = bench->Op("unique", "Unique", at, {ids});
  Node* whole = bench->Op("shape", "Shape", at, {unique});
  Node* once = bench->Add(NodeBuilder("once", "StridedSlice")
                              .Input(whole)
                              .Input(ints("begin", {0}))
                              .Input(ints("end", {1}))
                              .Input(ints("stride", {1}))
                              .Attr("shrink_axis_mask", 1),
                          at);
  Node* sum = bench->Op("sum", "UnsortedSegmentSum", at, {values, Sketch::Out(unique, 1), once});
  bench->Ret(0, sum);
  bench->Ret(1, unique);
}

template <class T, class Id>
void ExpectEqualSums(bool has_shapes, std::mt19937* random) {
  const int count = static_cast<int>((*random)() % 100), length = 1 + static_cast<int>((*random)() % 20);
  const auto type = tensorflow::DataTypeToEnum<T>::value, of_ids = tensorflow::DataTypeToEnum<Id>::value;
  Tensor values(type,
                has_shapes ? tensorflow::TensorShape({1, count, length, 1}) : tensorflow::TensorShape({count, length}));
  Tensor ids(of_ids, has_shapes ? tensorflow::TensorShape({count, 1}) : tensorflow::TensorShape({count}));
  std::normal_distribution<double> any;
  for (int64_t i = 0; i < values.NumElements(); ++i)
    values.flat<T>()(i) = static_cast<T>((i % 7 == 0 ? -0.0 : any(*random)));
  for (int i = 0; i < count; ++i) ids.flat<Id>()(i) = static_cast<Id>((*random)() % (1 + count / 2)) * -99'999;
  std::vector<Tensor> results[2];
  for (bool fuses : {false, true}) {
    Bench bench;
    DrawRowSum(&bench, type, of_ids, has_shapes, length);
    EXPECT_EQ(fuses ? FuseRowSums(&bench.graph) : 0, fuses ? 1 : 0);
    EXPECT_EQ(bench.Find("sum") == nullptr, fuses);
    Bench::Started started;
    bench.Start(&started, {values, ids});
    const TfStatus status = started.End();
    ASSERT_TRUE(status.ok()) << status;
    results[fuses] = started.run.rets;
  }
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(results[0][i].shape(), results[1][i].shape());
    EXPECT_EQ(results[0][i].tensor_data(), results[1][i].tensor_data()) << "other bits";
  }
}

TEST(RowSums, HaveTheBitsOfTensorFlowsOperations) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    for (bool has_shapes : {false, true}) {
      ExpectEqualSums<float, int64_t>(has_shapes, &random);
      ExpectEqualSums<float, int32_t>(has_shapes, &random);
      ExpectEqualSums<double, int64_t>(has_shapes, &random);
    }
  }
}

TEST(RowSums, OnlyTheIdsOwnShapeIsLeftOfTheOperations) {
  Bench bench;
  DrawRowSum(&bench, DT_FLOAT, tensorflow::DT_INT64, true, 4);
  ASSERT_EQ(FuseRowSums(&bench.graph), 1);
  std::vector<std::string> left;
  for (const Node* node : bench.graph.op_nodes()) left.push_back(node->type_string());
  EXPECT_THAT(left, testing::UnorderedElementsAre("_Arg", "Size", "Const", "ExpandDims", "Reshape",  // flat ids
                                                  "_Arg", "_FusewireSumRows", "_Retval", "_Retval"));
}

TEST(RowSums, PlacesThatAreUsedElsewhereStay) {
  Bench bench;
  DrawRowSum(&bench, DT_FLOAT, tensorflow::DT_INT64, true, 4);
  bench.Ret(2, Sketch::Out(bench.Find("unique"), 1));
  EXPECT_EQ(FuseRowSums(&bench.graph), 0);
}

TEST(RowSums, AGradientThatDoesNotFitItsIdsIsAnError) {
  Bench bench;
  DrawRowSum(&bench, DT_FLOAT, tensorflow::DT_INT64, true, 4);
  ASSERT_EQ(FuseRowSums(&bench.graph), 1);
  for (int64_t elements : {0, 7, 13, 16}) {
    Bench::Started started;
    bench.Start(&started, {Tensor(DT_FLOAT, tensorflow::TensorShape({elements})),
                           Tensor(tensorflow::DT_INT64, tensorflow::TensorShape({3}))});
    EXPECT_TRUE(absl::IsInvalidArgument(started.End())) << elements;
  }
}

// A run in which 1 call is held before operation 3, and 2 before operation 5: whether they are started there.
std::vector<bool> StartedBefore(HoldTimes* times, int64_t computing_ns) {
  HoldTimes::Run run;
  std::vector<bool> started{times->StartsBefore(3, 1, &run)};
  EXPECT_FALSE(times->StartsBefore(4, started[0] ? 0 : 1, &run));  // nothing was added
  started.push_back(times->StartsBefore(5, started[0] ? 1 : 2, &run));
  const int64_t until_ns = Clock::Real()->NowNs() + computing_ns;
  while (Clock::Real()->NowNs() < until_ns) {
  }
  times->Learn(&run);
  return started;
}

TEST(HoldTimes, CallsAreStartedBeforeALongComputationOnceItIsKnown) {
  HoldTimes times(6);
  EXPECT_THAT(StartedBefore(&times, 10 * HoldTimes::kLongNs), ElementsAre(false, false));
  EXPECT_THAT(StartedBefore(&times, 10 * HoldTimes::kLongNs), ElementsAre(true, true));
  int runs = 0;
  while (runs < 1000 && StartedBefore(&times, 0)[1]) ++runs;  // what was long becomes short
  EXPECT_GT(runs, 2);
  EXPECT_LT(runs, 1000);
}

}  // namespace
}  // namespace fusewire::tf
