// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "notes.h"

#include <array>
#include <ctime>
#include <exception>
#include <new>
#include <utility>

namespace fusewire::calls {

// Either a list of the caller, or what run_at() was told: group, name, shape of the source and of the target, type.
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

namespace {

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
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* const self = allocate(type, 0);
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
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyMethodDef notes_methods[] = {{"append", Append, METH_O, "append(list): its number"},
                               {"copy", Copy, METH_NOARGS, "copy(): all notes as lists, the oldest first"},
                               {nullptr, nullptr, 0, nullptr}};

PyType_Slot notes_slots[] = {{Py_tp_new, reinterpret_cast<void*>(MakeNotes)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(FreeNotes)},
                             {Py_tp_methods, notes_methods},
                             {0, nullptr}};
PyType_Spec notes_spec = {"fusewire._lib._calls.Notes", sizeof(Notes), 0, Py_TPFLAGS_DEFAULT, notes_slots};

}  // namespace

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

PyType_Spec* NotesSpec() { return &notes_spec; }

}  // namespace fusewire::calls
