/** Decides what a call does. Pure. */
import { isStopping, type ManagedState } from "./decide-state.ts";

export type ProcessVerb = "start" | "stop" | "kill";

/** What a function asks of the process of one pod. */
export interface ProcessCall {
  readonly verb: ProcessVerb;
  readonly podUid: string;
  /** The restart for which the call is made. */
  readonly restartId: string;
  /** Grows with each step of a restart, so that a late call does nothing. */
  readonly epoch: number;
  /** The sum of the files with which the process starts next; undefined where Sluice brings no files. */
  readonly sum?: string | undefined;
}

/**
 * What has become of an accepted call: `draining` while clients leave, `sent` once the runner has its command, and `none` if
 * nothing was to be done.
 */
export type CallStep = "draining" | "sent" | "none";

/** The call of the highest epoch. */
export interface AcceptedCall extends ProcessCall {
  readonly step: CallStep;
}

export interface CallView {
  /** Uid of the pod of this server. */
  readonly podUid: string;
  readonly last: AcceptedCall | undefined;
  readonly state: ManagedState;
  /** Verb of the command that the runner has, whether it has read it or not. */
  readonly commanded: ProcessVerb | undefined;
  /** Whether the mounted or the kept files have the sum of the call. */
  readonly hasFiles: boolean;
}

export type CallDecision =
  | { readonly kind: "refused"; readonly status: 409 | 412; readonly message: string }
  /** The last call has come again. */
  | { readonly kind: "repeated"; readonly status: 200 | 202 }
  | { readonly kind: "accepted"; readonly status: 200 | 202; readonly step: CallStep };

const refuseCall = (message: string): CallDecision => ({ kind: "refused", status: 409, message });

/**
 * Decides whether a call is late, repeated, impossible or accepted. What a refused call names is not remembered, so that a call
 * of the same epoch may come again.
 */
export function decideCall(call: ProcessCall, view: CallView): CallDecision {
  const { last, state } = view;
  if (call.podUid !== view.podUid) return refuseCall(`this is the server of the pod with the uid ${view.podUid}`);
  if (last !== undefined && call.epoch < last.epoch) return refuseCall(`epoch ${last.epoch} has been seen`);
  if (last !== undefined && call.epoch === last.epoch) return decideRepeated(call, last, state);
  const isRunning = runs(view);
  if (call.verb === "start" && !isRunning && isStopping(state))
    return refuseCall("a stop is under way: start again when it has ended");
  const needsFiles = call.verb === "stop" || (call.verb === "start" && !isRunning);
  if (needsFiles && call.sum !== undefined && !view.hasFiles) {
    return { kind: "refused", status: 412, message: `neither the mounted nor the kept files have the sum ${call.sum}` };
  }
  const step = stepOf(call.verb, view);
  const isDone = step === "none" && isReached(call.verb, isRunning ? "started" : state);
  return { kind: "accepted", status: isDone ? 200 : 202, step };
}

/** A process whose clients leave still runs, and a higher epoch withdraws the stop. */
const runs = ({ last, state }: CallView): boolean => state === "started" || last?.step === "draining";

function decideRepeated(call: ProcessCall, last: AcceptedCall, state: ManagedState): CallDecision {
  const isSame = call.verb === last.verb && call.restartId === last.restartId && call.sum === last.sum;
  if (!isSame) return refuseCall(`epoch ${last.epoch} belongs to ${last.verb} of ${last.restartId}`);
  return { kind: "repeated", status: isReached(call.verb, state) ? 200 : 202 };
}

const isDown = (state: ManagedState): boolean => state === "stopped" || state === "killed";

const isReached = (verb: ProcessVerb, state: ManagedState): boolean =>
  verb === "start" ? state === "started" : isDown(state);

function stepOf(verb: ProcessVerb, view: CallView): CallStep {
  const { state, commanded, last } = view;
  if (verb === "start") return runs(view) ? "none" : "sent";
  // A runner that has this command stays down, or stops. That of a process which failed would start it again.
  if (commanded === "kill" || (commanded === "stop" && (verb === "stop" || isDown(state)))) return "none";
  if (verb === "kill") return "sent";
  return state === "started" || last?.step === "draining" ? "draining" : "sent";
}
