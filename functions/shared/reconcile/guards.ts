/** The guards that the order of a reconcile gives to a verdict. */
import { type Guards, itself, person } from "../base/guards.ts";

/** Nothing is to be done. */
export const doneGuards = {
  done: itself("nothing is left to do"),
} as const satisfies Guards;

/** A write to the object of the reconcile fails. */
export const objectGuards = {
  "owner-refused": person(
    "the API server does not take a write to the owner",
    "change what refuses: the message quotes it",
  ),
} as const satisfies Guards;
