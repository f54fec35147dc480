// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Graphs that no worker would place on a parameter server: what they name is not there, is there twice, or is of
// another type; and correct graphs, corrupted at random by a seed. Whatever is placed: an error in words, or a part
// that runs to an end; never a crash.
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>
#include <tensorflow/core/framework/function.pb.h>
#include <tensorflow/core/framework/node_def_util.h>
#include "fusewire/base/random.h"
#include "fusewire/tf/star/serve/shelf.h"
#include "fusewire/tf/star/serve/task_test.h"

namespace fusewire::tf {
namespace {

using tensorflow::DataType;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::RegisterGraphRequest;
using tensorflow::Tensor;
using tensorflow::TensorShape;

constexpr const char* kHostileSession = "session";
constexpr const char* kDevice = "/job:ps/replica:0/task:0/device:CPU:0";
constexpr auto kDrawFor = std::chrono::milliseconds(1500);

NodeDef* Find(GraphDef* graph, const std::string& name) {
  for (NodeDef& node : *graph->mutable_node()) {
    if (node.name() == name) return &node;
  }
  return nullptr;
}

NodeDef* Add(GraphDef* graph, const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  node->set_device(kDevice);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}

void SetType(NodeDef* node, const char* attribute, DataType type = tensorflow::DT_FLOAT) {
  (*node->mutable_attr())[attribute].set_type(type);
}

class HostileGraphs : public testing::Test {
 protected:
  HostileGraphs() { task_->Begin(kHostileSession); }

  TfStatus Make(const RegisterGraphRequest& request, PartPtr* part, bool is_private = true) {
    Part::Owner owner;
    owner.env = &task_->env;
    owner.handle = kHostileSession;
    if (is_private) {
      TfStatus found = task_->env.session_mgr->WorkerSessionForSession(kHostileSession, &owner.session);
      if (!found.ok()) return found;
    }
    return Part::Make(request, std::move(owner), part);
  }
  // As the service does it: with as many arguments as the part takes, of their types.
  static TfStatus Run(const PartPtr& part, std::vector<Tensor> args, std::vector<Tensor>* rets) {
    PartRun run;
    run.step = 7;
    run.args = std::move(args);
    TfStatus end;
    std::promise<void> ending;
    std::future<void> ended = ending.get_future();
    part->Run(&run, [&end, &ending](const TfStatus& status) {
      end = status;
      ending.set_value();
    });
    while (ended.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << "it does not end";
      run.cancellation.StartCancel();
    }
    *rets = std::move(run.rets);
    return end;
  }
  void ExpectRefused(const std::string& what, const std::function<void(GraphDef* graph)>& mutate) {
    SCOPED_TRACE(what);
    Piece piece("Neg", 1);
    mutate(piece.request.mutable_graph_def());
    PartPtr part;
    const TfStatus made = Make(piece.request, &part);
    EXPECT_FALSE(made.ok());
    EXPECT_FALSE(made.message().empty());
  }

  std::unique_ptr<Task> task_ = std::make_unique<Task>();
};

TEST_F(HostileGraphs, WhereEdgesLeadNowhereAreRefused) {
  ExpectRefused("a node that feeds itself", [](GraphDef* graph) { Find(graph, "result")->set_input(0, "result"); });
  ExpectRefused("two nodes that feed each other", [](GraphDef* graph) {
    SetType(Add(graph, "other", "Neg", {"result"}), "T");
    Find(graph, "result")->set_input(0, "other");
  });
  ExpectRefused("a control edge around", [](GraphDef* graph) { Find(graph, "result")->add_input("^end"); });
  ExpectRefused("a missing input", [](GraphDef* graph) { Find(graph, "result")->clear_input(); });
  ExpectRefused("an input too many", [](GraphDef* graph) { Find(graph, "result")->add_input("arg0"); });
  for (const char* input : {"nobody", "^nobody", "arg0:7", "arg0:-1", "", ":", "^", "arg0:99999999999999999999"}) {
    ExpectRefused(absl::StrCat("the input \"", input, "\""),
                  [input](GraphDef* graph) { Find(graph, "result")->set_input(0, input); });
  }
}

TEST_F(HostileGraphs, WithInvalidNodesAreRefused) {
  ExpectRefused("no nodes", [](GraphDef* graph) { graph->clear_node(); });
  ExpectRefused("an unknown operation", [](GraphDef* graph) { Find(graph, "result")->set_op("NoSuchOp"); });
  ExpectRefused("no operation", [](GraphDef* graph) { Find(graph, "result")->clear_op(); });
  ExpectRefused("a name twice", [](GraphDef* graph) { *graph->add_node() = *Find(graph, "result"); });
  ExpectRefused("no name", [](GraphDef* graph) { Find(graph, "end")->clear_name(); });
  ExpectRefused("an invalid name", [](GraphDef* graph) { Find(graph, "end")->set_name("^end:0"); });
  ExpectRefused("a version from the future", [](GraphDef* graph) {
    graph->mutable_versions()->set_producer(1 << 30);
    graph->mutable_versions()->set_min_consumer(1 << 30);
  });
  for (const char* device : {"", "nonsense", "/job:ps/replica:0/task:0/device:GPU:0",
                             "/job:ps/replica:0/task:9/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"}) {
    ExpectRefused(absl::StrCat("all on \"", device, "\""), [device](GraphDef* graph) {
      for (NodeDef& node : *graph->mutable_node()) node.set_device(device);
    });
  }
}

TEST_F(HostileGraphs, WithInvalidAttributesAreRefused) {
  ExpectRefused("no type", [](GraphDef* graph) { Find(graph, "result")->clear_attr(); });
  ExpectRefused("a text for a type",
                [](GraphDef* graph) { (*Find(graph, "result")->mutable_attr())["T"].set_s("float"); });
  for (const int type : {0, 7, 21, 99, -1, 1 << 30}) {
    ExpectRefused(absl::StrCat("the type ", type),
                  [type](GraphDef* graph) { SetType(Find(graph, "result"), "T", static_cast<DataType>(type)); });
  }
  const auto set = [](const char* node, const char* attribute, int64_t number) {
    return
        [node, attribute, number](GraphDef* graph) { (*Find(graph, node)->mutable_attr())[attribute].set_i(number); };
  };
  for (const int64_t number : {int64_t{-1}, int64_t{1}, int64_t{1} << 20, int64_t{1} << 31, INT64_MAX, INT64_MIN}) {
    ExpectRefused(absl::StrCat("argument ", number, " of one"), set("arg0", "index", number));
    ExpectRefused(absl::StrCat("result ", number, " of one"), set("end", "index", number));
    if (number != 1) ExpectRefused(absl::StrCat("takes ", number), set("arg0", kTakeAttribute, number));
    ExpectRefused(absl::StrCat("keeps ", number, " for nobody"), set("end", kKeepAttribute, number));
  }
  ExpectRefused("an end without an index", [](GraphDef* graph) { Find(graph, "end")->mutable_attr()->erase("index"); });
  ExpectRefused("a duplicate _Arg or _Retval index", [](GraphDef* graph) {
    NodeDef* twice = graph->add_node();
    *twice = *Find(graph, "end");
    twice->set_name("twice");
  });
}

TEST_F(HostileGraphs, ConstantsThatLieAboutTheirSizeAreRefused) {
  const auto constant = [](GraphDef* graph, const std::function<void(tensorflow::TensorProto*)>& fill) {
    NodeDef* node = Add(graph, "constant", "Const", {});
    SetType(node, "dtype");
    tensorflow::TensorProto* value = (*node->mutable_attr())["value"].mutable_tensor();
    value->set_dtype(tensorflow::DT_FLOAT);
    fill(value);
  };
  for (const int64_t size : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 60}) {
    ExpectRefused(absl::StrCat("a constant of ", size), [&](GraphDef* graph) {
      constant(graph, [size](tensorflow::TensorProto* value) {
        value->mutable_tensor_shape()->add_dim()->set_size(size);
        value->mutable_tensor_shape()->add_dim()->set_size(size);
      });
    });
  }
  ExpectRefused("a constant of more dimensions than there are", [&](GraphDef* graph) {
    constant(graph, [](tensorflow::TensorProto* value) {
      for (int i = 0; i < 300; ++i) value->mutable_tensor_shape()->add_dim()->set_size(1);
    });
  });
  ExpectRefused("a constant of too few bytes", [&](GraphDef* graph) {
    constant(graph, [](tensorflow::TensorProto* value) {
      value->mutable_tensor_shape()->add_dim()->set_size(4);
      value->set_tensor_content("123");
    });
  });
  ExpectRefused("a constant of another type", [&](GraphDef* graph) {
    constant(graph, [](tensorflow::TensorProto* value) { value->set_dtype(tensorflow::DT_STRING); });
  });
}

TEST_F(HostileGraphs, FunctionsThatAreNotThereAreRefused) {
  ExpectRefused("a function without what it calls", [](GraphDef* graph) {
    AddFunction(graph, "calls", "NoSuchOp");
    Find(graph, "result")->set_op("calls");
    Find(graph, "result")->clear_attr();
  });
  ExpectRefused("a function without its result", [](GraphDef* graph) {
    AddFunction(graph, "calls", "Neg")->clear_ret();
    Find(graph, "result")->set_op("calls");
    Find(graph, "result")->clear_attr();
  });
  ExpectRefused("a function that is not there", [](GraphDef* graph) {
    NodeDef* node = Find(graph, "result");
    node->set_op("PartitionedCall");
    node->clear_attr();
    (*node->mutable_attr())["Tin"].mutable_list()->add_type(tensorflow::DT_FLOAT);
    (*node->mutable_attr())["Tout"].mutable_list()->add_type(tensorflow::DT_FLOAT);
  });
}

// Kernels with state are kept by name, as in every session of TensorFlow.
TEST_F(HostileGraphs, AnOperationUnderTheNameOfAnotherIsRefused) {
  Piece with_queue("Neg", 1);
  with_queue.WithState();
  PartPtr first, second;
  ASSERT_TRUE(Make(with_queue.request, &first).ok());
  Piece other("Neg", 1);
  NodeDef* node = Add(other.request.mutable_graph_def(), "queue", "RandomUniform", {"shape"});
  SetType(node, "T", tensorflow::DT_INT32);
  SetType(node, "dtype");
  NodeDef* shape = Add(other.request.mutable_graph_def(), "shape", "Const", {});
  SetType(shape, "dtype", tensorflow::DT_INT32);
  Tensor two(tensorflow::DT_INT32, TensorShape({1}));
  two.flat<int32_t>()(0) = 2;
  two.AsProtoTensorContent((*shape->mutable_attr())["value"].mutable_tensor());
  const TfStatus made = Make(other.request, &second);
  EXPECT_TRUE(absl::IsInvalidArgument(made)) << made;
  EXPECT_NE(std::string(made.message()).find("queue"), std::string::npos) << made;
  // And the first is as before.
  std::vector<Tensor> rets;
  const TfStatus ran = Run(first, {Tensor(1.0f)}, &rets);
  EXPECT_TRUE(ran.ok()) << ran;
}

// ---- at random ----

class GraphMutator {
 public:
  GraphMutator() : seed_(SystemRandom64()), random_(seed_) {}
  uint64_t seed() const { return seed_; }
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }

  // A graph that is right: branches, a variable, a function, a constant, a kept value.
  RegisterGraphRequest Right() {
    Piece piece("AddV2", 2);
    GraphDef* graph = piece.request.mutable_graph_def();
    if (Below(2) == 0) piece.Take(1, 5);
    if (Below(2) == 0) AddVariable(graph);
    if (Below(2) == 0) AddBranches(graph);
    if (Below(2) == 0) {
      AddFunction(graph, "calls", "Neg");
      Add(graph, "called", "calls", {"result"});
      Find(graph, "end")->set_input(0, "called");
    }
    if (Below(3) == 0) piece.WithState();
    return piece.request;
  }
  void Mutate(GraphDef* graph) {
    if (graph->node_size() == 0) return;
    NodeDef* node = Any(graph);
    switch (Below(12)) {
      case 0: node->set_op(AnyOp()); break;
      case 1: node->set_name(Any(graph)->name()); break;
      case 2: node->set_device(Below(2) == 0 ? "" : "/job:ps/replica:0/task:0/device:CPU:1"); break;
      case 3:
        if (node->input_size() > 0) node->mutable_input()->RemoveLast();
        break;
      case 4: node->add_input(AnyInput(graph)); break;
      case 5:
        if (node->input_size() > 0) node->set_input(static_cast<int>(Below(1)), AnyInput(graph));
        break;
      case 6: *graph->add_node() = *node; break;
      case 7: node->Swap(Any(graph)); break;
      case 8: Any(graph)->mutable_attr()->swap(*node->mutable_attr()); break;
      case 9: node->mutable_attr()->erase(AnyAttribute()); break;
      default: SetAny(&(*node->mutable_attr())[AnyAttribute()]);
    }
  }
  Tensor Argument(DataType type) {
    TensorShape shape;
    for (uint64_t left = Below(3); left > 0; --left) shape.AddDim(static_cast<int64_t>(Below(4)));
    Tensor tensor(type, shape);
    if (tensorflow::DataTypeCanUseMemcpy(type)) {
      const auto bytes = tensor.tensor_data();
      for (size_t i = 0; i < bytes.size(); ++i) const_cast<char*>(bytes.data())[i] = static_cast<char>(Below(2));
    }
    return tensor;
  }

 private:
  static void AddVariable(GraphDef* graph) {
    NodeDef* variable = Add(graph, "variable", "VarHandleOp", {});
    SetType(variable, "dtype");
    (*variable->mutable_attr())["shape"].mutable_shape();
    (*variable->mutable_attr())["shared_name"].set_s("variable");
    SetType(Add(graph, "assign", "AssignVariableOp", {"variable", "arg0"}), "dtype");
    SetType(Add(graph, "read", "ReadVariableOp", {"variable", "^assign"}), "dtype");
    Find(graph, "result")->set_input(0, "read");
  }
  static void AddBranches(GraphDef* graph) {
    NodeDef* which = Add(graph, "which", "Const", {});
    SetType(which, "dtype", tensorflow::DT_BOOL);
    Tensor(true).AsProtoField((*which->mutable_attr())["value"].mutable_tensor());
    SetType(Add(graph, "switch", "Switch", {"arg1", "which"}), "T");
    SetType(Add(graph, "negative", "Neg", {"switch:1"}), "T");
    NodeDef* merge = Add(graph, "merge", "Merge", {"switch", "negative"});
    SetType(merge, "T");
    (*merge->mutable_attr())["N"].set_i(2);
    Find(graph, "result")->set_input(1, "merge");
  }
  NodeDef* Any(GraphDef* graph) {
    return graph->mutable_node(static_cast<int>(Below(static_cast<uint64_t>(graph->node_size()))));
  }
  std::string AnyInput(GraphDef* graph) {
    const std::string name = Any(graph)->name();
    switch (Below(6)) {
      case 0: return absl::StrCat("^", name);
      case 1: return absl::StrCat(name, ":", Below(3));
      case 2: return "nobody";
      default: return name;
    }
  }
  std::string AnyOp() {
    static const char* const kOps[] = {"Neg",
                                       "AddV2",
                                       "Identity",
                                       "NoOp",
                                       "Const",
                                       "_Arg",
                                       "_Retval",
                                       "Switch",
                                       "Merge",
                                       "VarHandleOp",
                                       "Enter",
                                       "Exit",
                                       "VariableV2",
                                       "ReadVariableOp",
                                       "AssignVariableOp",
                                       "calls",
                                       "FIFOQueueV2",
                                       "QueueSizeV2",
                                       "AssignAddVariableOp",
                                       "Shape",
                                       "Cast",
                                       "Pack",
                                       "Placeholder",
                                       "NoSuchOp",
                                       "_Send",
                                       "_Recv",
                                       "LoopCond",
                                       "RefIdentity",
                                       "ControlTrigger"};
    return kOps[Below(std::size(kOps))];
  }
  std::string AnyAttribute() {
    static const char* const kNames[] = {
        "T",           "dtype",           "index",        "shape",          "value",
        "N",           kTakeAttribute,    kKeepAttribute, kTakersAttribute, kHolderAttribute,
        "shared_name", "component_types", "_class",       "container",      "_output_shapes"};
    return kNames[Below(std::size(kNames))];
  }
  void SetAny(tensorflow::AttrValue* value) {
    static constexpr int64_t kNumbers[] = {0, 1, 2, 5, -1, 1 << 20, INT64_MAX, INT64_MIN};
    static constexpr int kTypes[] = {1, 3, 7, 9, 10, 20, 21, 101, 0, 999};
    switch (Below(7)) {
      case 0: value->set_i(kNumbers[Below(std::size(kNumbers))]); break;
      case 1: value->set_s(Below(2) == 0 ? "variable" : ""); break;
      case 2: value->set_b(true); break;
      case 3: value->mutable_shape()->add_dim()->set_size(kNumbers[Below(std::size(kNumbers))]); break;
      case 4: value->mutable_list()->add_type(static_cast<DataType>(kTypes[Below(std::size(kTypes))])); break;
      case 5: value->mutable_func()->set_name("calls"); break;
      default: value->set_type(static_cast<DataType>(kTypes[Below(std::size(kTypes))]));
    }
  }

  const uint64_t seed_;
  Random random_;
};

TEST_F(HostileGraphs, BentAtRandomEndInAnErrorOrRun) {
  GraphMutator mutator;
  std::printf("seed %llu\n", static_cast<unsigned long long>(mutator.seed()));
  int drawn = 0, made = 0, ran = 0;
  const auto until = std::chrono::steady_clock::now() + kDrawFor;
  while (std::chrono::steady_clock::now() < until && !HasFailure()) {
    ++drawn;
    RegisterGraphRequest request = mutator.Right();
    for (uint64_t left = mutator.Below(4); left > 0; --left) mutator.Mutate(request.mutable_graph_def());
    SCOPED_TRACE(request.ShortDebugString());
    PartPtr part;
    const TfStatus status = Make(request, &part, mutator.Below(2) == 0);
    if (!status.ok()) {
      EXPECT_FALSE(status.message().empty());
      continue;
    }
    ++made;
    std::vector<Tensor> args, rets;
    for (const DataType type : part->ends().args()) args.push_back(mutator.Argument(type));
    if (!Run(part, std::move(args), &rets).ok()) continue;
    ++ran;
    EXPECT_EQ(rets.size(), part->ends().returned() + part->ends().keeps().size());
  }
  EXPECT_GT(made, 0) << drawn;
  EXPECT_GT(ran, 0) << drawn;
}

}  // namespace
}  // namespace fusewire::tf
