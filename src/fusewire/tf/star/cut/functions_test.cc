// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/cut/grouping.h"

#include <gtest/gtest.h>

#include <string>

#include "fusewire/tf/star/cut/sketch_test.h"

namespace fusewire::tf {
namespace {

class FunctionsTest : public testing::Test {
 protected:
  // A function of this one operation, which may call another.
  void Define(const std::string& name, const std::string& op, const std::string& device = "",
              const std::string& called = "") {
    tensorflow::FunctionDef function;
    function.mutable_signature()->set_name(name);
    tensorflow::NodeDef* node = function.add_node_def();
    node->set_name("inner");
    node->set_op(op);
    node->set_device(device);
    if (!called.empty()) (*node->mutable_attr())["f"].mutable_func()->set_name(called);
    TfStatus added = library_.AddFunctionDef(function);
    ASSERT_TRUE(added.ok()) << added;
  }
  // Of a node on the parameter server whose attribute names the function.
  Functions::Facts FactsOf(const std::string& name) {
    tensorflow::NameAttrList function;
    function.set_name(name);
    tensorflow::Node* node = sketch_.Add(Sketch::NodeBuilder("call_" + name, "PartitionedCall")
                                             .Input(std::vector<Sketch::Out>())
                                             .Attr("Tin", tensorflow::DataTypeVector())
                                             .Attr("Tout", tensorflow::DataTypeVector())
                                             .Attr("f", function),
                                         Sketch::kPs);
    return functions_.Of(*node);
  }

  tensorflow::FunctionLibraryDefinition library_{tensorflow::OpRegistry::Global(), tensorflow::FunctionDefLibrary()};
  Functions functions_{&library_};
  Sketch sketch_;
};

TEST_F(FunctionsTest, MayBlockIfAnOperationOfTheirsMay) {
  Define("plain", "Neg");
  Define("waiting", "QueueDequeueV2");
  EXPECT_FALSE(FactsOf("plain").may_block);
  EXPECT_TRUE(FactsOf("waiting").may_block);
  EXPECT_FALSE(FactsOf("waiting").is_elsewhere);
}

TEST_F(FunctionsTest, AreAsTheFunctionsThatTheyCall) {
  Define("waiting", "QueueDequeueV2");
  Define("middle", "PartitionedCall", "", "waiting");
  Define("outer", "PartitionedCall", "", "middle");
  EXPECT_TRUE(FactsOf("outer").may_block);
}

TEST_F(FunctionsTest, ThatCallThemselvesEnd) {
  Define("circle", "PartitionedCall", "", "circle");
  EXPECT_FALSE(FactsOf("circle").may_block);
}

TEST_F(FunctionsTest, AreElsewhereIfOneOfTheirOperationsIs) {
  Define("here", "Neg", Sketch::kPs);
  Define("loose", "Neg", "/job:ps");
  Define("there", "Neg", Sketch::kWorker);
  Define("odd", "Neg", "no device at all");
  Define("of_sessions", "_Send");
  EXPECT_FALSE(FactsOf("here").is_elsewhere);
  EXPECT_FALSE(FactsOf("loose").is_elsewhere);
  EXPECT_TRUE(FactsOf("there").is_elsewhere);
  EXPECT_TRUE(FactsOf("odd").is_elsewhere);
  EXPECT_TRUE(FactsOf("of_sessions").is_elsewhere);
}

TEST_F(FunctionsTest, CountTheirGradients) {
  Define("plain", "Neg");
  Define("backwards", "QueueEnqueueV2");
  tensorflow::GradientDef gradient;
  gradient.set_function_name("plain");
  gradient.set_gradient_func("backwards");
  ASSERT_TRUE(library_.AddGradientDef(gradient).ok());
  EXPECT_TRUE(FactsOf("plain").may_block);
}

TEST_F(FunctionsTest, ThatAreNotThereDoNothing) {
  EXPECT_FALSE(FactsOf("missing").may_block);
  Functions none(nullptr);
  tensorflow::Node* node = sketch_.Fed("fed", Sketch::kPs);
  EXPECT_FALSE(none.Of(*node).is_elsewhere);
}

}  // namespace
}  // namespace fusewire::tf
