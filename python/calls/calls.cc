// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Collectives from Python, and what a flight recorder notes of them: the extension fusewire._lib._calls, against the
// limited C API of Python 3.10, so that one file serves every later version. A small collective costs a tenth of its
// price through ctypes.
// Home: the calling thread, which holds the interpreter's lock except while it waits. Owns: the notes; the group, its
// tickets and plans are Python's. Fails: with the code of the C API; kNotServed: nothing was done, since the group is
// closed or belongs to the process that this one was forked from, or run() does not know such an array.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "fusewire/collective/c_api/group_c_api.h"
#include "fusewire/collective/kernels/types.h"

// Python's limited API has the buffer protocol from 3.11 on; the functions and the structure are the same before.
#if Py_LIMITED_API + 0 < 0x030b0000
extern "C" {
struct Py_buffer {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
};
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject* object, Py_buffer* view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer* view);
}
constexpr int PyBUF_WRITABLE = 0x1;
constexpr int PyBUF_FORMAT = 0x4;
constexpr int PyBUF_C_CONTIGUOUS = 0x38;
#endif

namespace {

using fusewire::collective::CollectiveKind;
using fusewire::collective::Type;

constexpr long kNotServed = -100;  // less than the negative of any code

// A list that rarely is long.
template <class T>
class Few {
 public:
  T* Resize(size_t size) {
    size_ = size;
    if (size > kFew) many_.resize(size);
    return data();
  }
  T* data() { return size_ > kFew ? many_.data() : few_.data(); }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kFew = 16;
  std::array<T, kFew> few_;
  std::vector<T> many_;
  size_t size_ = 0;
};

// ---- what an interpreter gives back while its thread waits ----

void* ReleaseInterpreter() { return PyEval_SaveThread(); }
void TakeInterpreter(void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); }
const fusewire_waiting kWaiting = {ReleaseInterpreter, TakeInterpreter, PyErr_CheckSignals};

// A forked child has none of the library's threads: its calls would wait for ever.
std::atomic<unsigned> forks{0};
void CountFork() { forks.fetch_add(1, std::memory_order_relaxed); }

// ---- objects of our types ----

PyObject* Allocate(PyTypeObject* type) {
  return reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

void Free(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

// ---- arrays ----

class View {
 public:
  View(PyObject* object, int flags) : held_(PyObject_GetBuffer(object, &view_, flags | kWanted) == 0) {
    if (!held_) PyErr_Clear();  // ctypes' way finds the same, and says it
  }
  ~View() {
    if (held_) PyBuffer_Release(&view_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  bool held() const { return held_; }
  void* data() const { return view_.buf; }
  size_t bytes() const { return static_cast<size_t>(view_.len); }
  size_t elements() const { return static_cast<size_t>(view_.len / view_.itemsize); }
  // The number of rows; a scalar has one.
  size_t rows() const { return view_.ndim == 0 ? 1 : static_cast<size_t>(view_.shape[0]); }
  // A number of Type, or -1.
  int type() const {
    if (view_.format == nullptr || view_.itemsize == 0) return -1;
    const char* letter = view_.format;
    if (*letter == '@' || *letter == '=' || *letter == '<') ++letter;
    if (letter[0] == 0 || letter[1] != 0) return -1;
    switch (*letter) {
      case '?': return static_cast<int>(Type::kBool);
      case 'e': return static_cast<int>(Type::kF16);
      case 'f': return static_cast<int>(Type::kF32);
      case 'd': return static_cast<int>(Type::kF64);
      case 'b':
      case 'h':
      case 'i':
      case 'l':
      case 'q': return OfSize(Type::kI8);
      case 'B':
      case 'H':
      case 'I':
      case 'L':
      case 'Q': return OfSize(Type::kU8);
      default: return -1;
    }
  }

 private:
  static constexpr int kWanted = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;

  // The integer of this size whose family begins with `smallest`.
  int OfSize(Type smallest) const {
    const int first = static_cast<int>(smallest);
    switch (view_.itemsize) {
      case 1: return first;
      case 2: return first + 1;
      case 4: return first + 2;
      case 8: return first + 3;
      default: return -1;
    }
  }

  Py_buffer view_{};
  bool held_;
};

// ---- notes: what a flight recorder needs of a call; run_at() writes them, and the newest ones are kept ----

constexpr Py_ssize_t kTold = 5;

// Either a list of the caller, or the arguments of run_at(): group, name, shape of the source and of the target, type.
struct Note {
  PyObject* list = nullptr;
  std::array<PyObject*, kTold> told{};
  PyObject* stack = nullptr;
  uint64_t id = 0;
  uint64_t sequence = 0;
  int64_t timeout_ns = 0;
  int64_t began_ns = 0;
  int64_t ended_ns = 0;  // 0: it is under way, or has failed

  void Clear() {
    Py_CLEAR(list);
    for (PyObject*& one : told) Py_CLEAR(one);
    Py_CLEAR(stack);
  }
};

// The newest notes of all groups.
struct Notes {
  PyObject_HEAD std::vector<Note>* ring;
  uint64_t count;
  PyObject* stack;  // a function whose result is kept with each note, or null
};

Notes* NotesOf(PyObject* self) { return reinterpret_cast<Notes*>(self); }

int64_t Now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Note& At(const Notes& notes, uint64_t id) { return (*notes.ring)[id % notes.ring->size()]; }

Note& NextNote(Notes* notes) {
  Note& note = At(*notes, notes->count);
  note.Clear();
  note.id = notes->count++;
  return note;
}

// As the notes of fusewire/torch/recorder.py.
PyObject* AsList(const Note& note) {
  if (note.list != nullptr) {
    Py_INCREF(note.list);
    return note.list;
  }
  const auto& [group, name, source, target, type] = note.told;
  PyObject* const tuple = Py_BuildValue(
      "KOO(OO)(OO)KOLLLLO", static_cast<unsigned long long>(note.id), group, name, source, type, target, type,
      static_cast<unsigned long long>(note.sequence), Py_None, static_cast<long long>(note.timeout_ns),
      static_cast<long long>(note.began_ns), static_cast<long long>(note.began_ns),
      static_cast<long long>(note.ended_ns), note.stack == nullptr ? Py_None : note.stack);
  PyObject* const list = tuple == nullptr ? nullptr : PySequence_List(tuple);
  Py_XDECREF(tuple);
  return list;
}

// `told`: kTold objects and the number of the call in its group. False: an exception.
bool BeginNote(Notes* notes, PyObject* const* told, int64_t timeout_ns, uint64_t* id) {
  PyObject* stack = nullptr;
  if (notes->stack != nullptr) {
    stack = PyObject_CallFunctionObjArgs(notes->stack, nullptr);
    if (stack == nullptr) return false;
  }
  const uint64_t sequence = PyLong_AsUnsignedLongLong(told[kTold]);
  Note& note = NextNote(notes);
  for (size_t i = 0; i < note.told.size(); ++i) {
    Py_INCREF(told[i]);
    note.told[i] = told[i];
  }
  note.stack = stack;
  note.sequence = sequence;
  note.timeout_ns = timeout_ns;
  note.ended_ns = 0;
  note.began_ns = Now();
  *id = note.id;
  return true;
}

void EndNote(const Notes& notes, uint64_t id) {
  Note& note = At(notes, id);
  if (note.id == id) note.ended_ns = Now();  // otherwise newer calls have taken its place
}

// append(list): the caller's own note. Returns its number.
PyObject* Append(PyObject* self, PyObject* list) {
  Note& note = NextNote(NotesOf(self));
  Py_INCREF(list);
  note.list = list;
  return PyLong_FromUnsignedLongLong(note.id);
}

// copy(): lists, the oldest first.
PyObject* Copy(PyObject* self, PyObject* /*nothing*/) {
  const Notes& notes = *NotesOf(self);
  PyObject* const result = PyList_New(0);
  const uint64_t size = notes.ring->size();
  for (uint64_t id = notes.count > size ? notes.count - size : 0; result != nullptr && id < notes.count; ++id) {
    PyObject* const list = AsList(At(notes, id));
    const bool is_kept = list != nullptr && PyList_Append(result, list) == 0;
    Py_XDECREF(list);
    if (!is_kept) {
      Py_DECREF(result);
      return nullptr;
    }
  }
  return result;
}

// Notes(size, stack): `stack` is a function, or None.
PyObject* MakeNotes(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
  const Py_ssize_t size =
      PyTuple_Size(arguments) == 2 ? PyLong_AsSsize_t(PyTuple_GetItem(arguments, 0)) : Py_ssize_t{0};
  if (size <= 0) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "Notes takes a size and a function or None");
    return nullptr;
  }
  PyObject* const self = Allocate(type);
  if (self == nullptr) return nullptr;
  NotesOf(self)->ring = new (std::nothrow) std::vector<Note>;
  try {
    if (NotesOf(self)->ring != nullptr) NotesOf(self)->ring->resize(static_cast<size_t>(size));
  } catch (const std::exception&) {  // a number that somebody made up
    delete std::exchange(NotesOf(self)->ring, nullptr);
  }
  if (NotesOf(self)->ring == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  PyObject* const stack = PyTuple_GetItem(arguments, 1);
  if (stack != Py_None) {
    Py_INCREF(stack);
    NotesOf(self)->stack = stack;
  }
  return self;
}

void FreeNotes(PyObject* self) {
  if (NotesOf(self)->ring != nullptr) {
    for (Note& note : *NotesOf(self)->ring) note.Clear();
  }
  delete NotesOf(self)->ring;
  Py_CLEAR(NotesOf(self)->stack);
  Free(self);
}

PyMethodDef notes_methods[] = {{"append", Append, METH_O, "append(list): its number"},
                               {"copy", Copy, METH_NOARGS, "copy(): all notes as lists, the oldest first"},
                               {nullptr, nullptr, 0, nullptr}};

PyType_Slot notes_slots[] = {{Py_tp_new, reinterpret_cast<void*>(MakeNotes)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(FreeNotes)},
                             {Py_tp_methods, notes_methods},
                             {0, nullptr}};
PyType_Spec notes_spec = {"fusewire._lib._calls.Notes", sizeof(Notes), 0, Py_TPFLAGS_DEFAULT, notes_slots};

// ---- one group ----

struct Calls {
  PyObject_HEAD fusewire_group* group;  // null: closed
  unsigned forks;
};

Calls* Of(PyObject* self) { return reinterpret_cast<Calls*>(self); }

bool IsOpen(const Calls& calls) {
  return calls.group != nullptr && calls.forks == forks.load(std::memory_order_relaxed);
}

PyObject* Code(long code) { return PyLong_FromLong(code); }

PyObject* Run(const Calls& calls, const fusewire_collective_spec& spec) {
  const int code = fusewire_group_run(calls.group, &spec, &kWaiting);
  return PyErr_Occurred() != nullptr ? nullptr : Code(code);  // a signal's handler has raised
}

// The numbers of elements of each rank's part, for kinds that have parts; false: they are not equal.
bool FindCounts(CollectiveKind kind, const View& source, size_t ranks, Few<uint64_t>* counts) {
  const auto fill = [counts](size_t size, uint64_t count) { std::fill_n(counts->Resize(size), size, count); };
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce: fill(1, source.elements()); return true;
    case CollectiveKind::kAllGather: fill(ranks, source.elements()); return true;
    case CollectiveKind::kReduceScatter: fill(ranks, source.elements() / ranks); return source.rows() % ranks == 0;
    case CollectiveKind::kAllToAll: fill(1, source.elements() / ranks); return source.rows() % ranks == 0;
    default: return false;
  }
}

// run(kind, op, root, source, target): a collective over one array; in place if `target` is `source`.
PyObject* RunArrays(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const Calls& calls = *Of(self);
  if (count != 5 || !IsOpen(calls)) return Code(kNotServed);
  const auto kind = static_cast<CollectiveKind>(PyLong_AsLong(arguments[0]));
  const int ranks = fusewire_group_ranks(calls.group);
  const bool in_place = arguments[3] == arguments[4];
  if (in_place && kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kBroadcast) return Code(kNotServed);
  const View source(arguments[3], in_place ? PyBUF_WRITABLE : 0);
  if (!source.held() || source.type() < 0 || source.bytes() == 0) return Code(kNotServed);
  Few<uint64_t> counts;
  if (!FindCounts(kind, source, static_cast<size_t>(ranks), &counts)) return Code(kNotServed);

  fusewire_collective_spec spec{};
  spec.kind = static_cast<int>(kind);
  spec.op = static_cast<int>(PyLong_AsLong(arguments[1]));
  spec.root = static_cast<int>(PyLong_AsLong(arguments[2]));
  if (PyErr_Occurred() != nullptr) return nullptr;
  spec.type = source.type();
  spec.counts = counts.data();
  spec.counts_size = counts.size();
  fusewire_piece from{source.data(), source.bytes()};
  spec.to = &from;
  spec.to_size = 1;
  if (in_place) return Run(calls, spec);

  const View target(arguments[4], PyBUF_WRITABLE);
  if (!target.held() || target.type() != spec.type) return Code(kNotServed);
  fusewire_piece to{target.data(), target.bytes()};
  spec.to = &to;
  spec.from = &from;
  // Of a broadcast, only the root has a source.
  const bool has_source = kind != CollectiveKind::kBroadcast || fusewire_group_rank(calls.group) == spec.root;
  spec.from_size = has_source ? 1 : 0;
  return Run(calls, spec);
}

// The arguments of run_at(), start_at() and plan_at(): kind, op, type, root, key, timeout_ns, confirm, counts,
// receives, sources, targets. The last four are tuples: of numbers of elements, and of an address and a number of bytes
// for each array. The caller keeps the arrays.
class Arguments {
 public:
  static constexpr Py_ssize_t kCount = 11;

  // False: an exception.
  bool Read(PyObject* const* from) {
    spec_.kind = static_cast<int>(PyLong_AsLong(from[0]));
    spec_.op = static_cast<int>(PyLong_AsLong(from[1]));
    spec_.type = static_cast<int>(PyLong_AsLong(from[2]));
    spec_.root = static_cast<int>(PyLong_AsLong(from[3]));
    spec_.key = PyLong_AsUnsignedLongLong(from[4]);
    spec_.timeout_ns = PyLong_AsLongLong(from[5]);
    spec_.confirm = PyObject_IsTrue(from[6]);
    ReadCounts(from[7], &counts_, &spec_.counts, &spec_.counts_size);
    ReadCounts(from[8], &receives_, &spec_.receives, &spec_.receives_size);
    ReadPieces(from[9], &sources_, &spec_.from, &spec_.from_size);
    ReadPieces(from[10], &targets_, &spec_.to, &spec_.to_size);
    return PyErr_Occurred() == nullptr;
  }
  const fusewire_collective_spec& spec() const { return spec_; }

 private:
  static size_t SizeOf(PyObject* tuple) { return static_cast<size_t>(std::max<Py_ssize_t>(PyTuple_Size(tuple), 0)); }
  static void ReadCounts(PyObject* tuple, Few<uint64_t>* list, const uint64_t** to, size_t* size) {
    uint64_t* const numbers = list->Resize(*size = SizeOf(tuple));
    for (size_t i = 0; i < *size; ++i)
      numbers[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(i)));
    *to = numbers;
  }
  static void ReadPieces(PyObject* tuple, Few<fusewire_piece>* list, const fusewire_piece** to, size_t* size) {
    fusewire_piece* const pieces = list->Resize(*size = SizeOf(tuple) / 2);
    for (size_t i = 0; i < *size; ++i) {
      const auto at = static_cast<Py_ssize_t>(2 * i);
      pieces[i] = {PyLong_AsVoidPtr(PyTuple_GetItem(tuple, at)), PyLong_AsSize_t(PyTuple_GetItem(tuple, at + 1))};
    }
    *to = pieces;
  }

  fusewire_collective_spec spec_{};
  Few<uint64_t> counts_, receives_;
  Few<fusewire_piece> sources_, targets_;
};

PyObject* WrongCount(const char* function) {
  PyErr_Format(PyExc_TypeError, "%s: a wrong number of arguments", function);
  return nullptr;
}

// run_at(..., [notes, group, name, shapes of the source and the target, type, number of the call]): what follows the
// arguments is for a flight recorder; without it, or with None as notes, nothing is noted. A code.
PyObject* RunAt(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  constexpr Py_ssize_t kNoted = Arguments::kCount + 1 + kTold + 1;
  const Calls& calls = *Of(self);
  if (count != Arguments::kCount && count != kNoted) return WrongCount("run_at");
  if (!IsOpen(calls)) return Code(kNotServed);
  Arguments read;
  if (!read.Read(arguments)) return nullptr;
  if (count != kNoted || arguments[Arguments::kCount] == Py_None) return Run(calls, read.spec());
  Notes* const notes = NotesOf(arguments[Arguments::kCount]);
  uint64_t id = 0;
  if (!BeginNote(notes, arguments + Arguments::kCount + 1, read.spec().timeout_ns, &id)) return nullptr;
  const int code = fusewire_group_run(calls.group, &read.spec(), &kWaiting);
  if (code == 0) EndNote(*notes, id);
  return PyErr_Occurred() != nullptr ? nullptr : Code(code);
}

// start_at(...): the handle of a ticket; plan_at(...): that of a plan. Or the negative of a code.
template <class Made, int (*make)(fusewire_group*, const fusewire_collective_spec*, Made**)>
PyObject* MakeAt(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  const Calls& calls = *Of(self);
  if (count != Arguments::kCount) return WrongCount("start_at or plan_at");
  if (!IsOpen(calls)) return Code(kNotServed);
  Arguments read;
  if (!read.Read(arguments)) return nullptr;
  Made* made = nullptr;
  const int code = make(calls.group, &read.spec(), &made);
  return code == 0 ? PyLong_FromVoidPtr(made) : Code(-code);
}

// run_plan(plan): `plan` is a handle of plan_at(). A code.
PyObject* RunPlan(PyObject* self, PyObject* plan) {
  const Calls& calls = *Of(self);
  if (!IsOpen(calls)) return Code(kNotServed);
  void* const handle = PyLong_AsVoidPtr(plan);
  if (handle == nullptr) return PyErr_Occurred() != nullptr ? nullptr : Code(kNotServed);
  const int code = fusewire_plan_run(static_cast<fusewire_plan*>(handle), &kWaiting);
  return PyErr_Occurred() != nullptr ? nullptr : Code(code);
}

PyObject* Close(PyObject* self, PyObject* /*nothing*/) {
  Of(self)->group = nullptr;
  Py_RETURN_NONE;
}

// Calls(group): `group` is the handle of a fusewire_group, which close() forgets before it is freed.
PyObject* Make(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
  void* const group = PyTuple_Size(arguments) == 1 ? PyLong_AsVoidPtr(PyTuple_GetItem(arguments, 0)) : nullptr;
  if (group == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_TypeError, "Calls takes the handle of a group");
    return nullptr;
  }
  PyObject* const self = Allocate(type);
  if (self == nullptr) return nullptr;
  Of(self)->group = static_cast<fusewire_group*>(group);
  Of(self)->forks = forks.load(std::memory_order_relaxed);
  return self;
}

template <class Function>
PyCFunction AsMethod(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"run", AsMethod(RunArrays), METH_FASTCALL, "run(kind, op, root, source, target): a code, or -100: not served"},
    {"run_at", AsMethod(RunAt), METH_FASTCALL,
     "run_at(kind, op, type, root, key, timeout_ns, confirm, counts, receives, sources, targets, [notes, group, name, "
     "source_shape, target_shape, type, sequence]): a code, or -100: not served"},
    {"start_at", AsMethod(MakeAt<fusewire_ticket, fusewire_group_start>), METH_FASTCALL,
     "start_at(as run_at): a ticket's handle, or a negative code"},
    {"plan_at", AsMethod(MakeAt<fusewire_plan, fusewire_plan_make>), METH_FASTCALL,
     "plan_at(as run_at): a plan's handle, or a negative code"},
    {"run_plan", RunPlan, METH_O, "run_plan(handle): a code"},
    {"close", Close, METH_NOARGS, "close(): later calls are not served"},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(Make)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Free)},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"fusewire._lib._calls.Calls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT, slots};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "fusewire._lib._calls",
                      "Collectives in one call.",
                      -1,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

bool AddType(PyObject* to, const char* name, PyType_Spec* of) {
  PyObject* const type = PyType_FromSpec(of);
  if (type != nullptr && PyModule_AddObject(to, name, type) == 0) return true;
  Py_XDECREF(type);
  return false;
}

}  // namespace

PyMODINIT_FUNC PyInit__calls() {
  PyObject* const made = PyModule_Create(&module);
  if (made == nullptr || !AddType(made, "Calls", &spec) || !AddType(made, "Notes", &notes_spec)) {
    Py_XDECREF(made);
    return nullptr;
  }
  if (pthread_atfork(nullptr, nullptr, CountFork) != 0) {
    Py_DECREF(made);
    return PyErr_NoMemory();
  }
  return made;
}
