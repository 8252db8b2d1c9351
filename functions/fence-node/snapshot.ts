/** What a decision about a node sees, and what it answers. Pure. */

import type { AgentMode, ArmedFence, FenceEvidence, FencePhase, NotedAgent } from "../shared/annotations/fencing.ts";
import type { NodeBackup } from "../shared/annotations/fencing-deletion.ts";
import type { Peer } from "../shared/annotations/fencing-peers.ts";
import type { FenceSlots } from "../shared/annotations/fencing-slots.ts";
import type { BrakesView, SlotsSeen } from "./brakes-view.ts";
import type { TimeView } from "./decide-time.ts";
import type { LedgerStep, LedgersSeen } from "./ledgers-seen.ts";
import type { MachineSeen, MarksSeen } from "./machine-marks.ts";
import type { DeletionView, NodePatch } from "./node-backup.ts";

/** A Node as a GET has it, and what its Machine asks for. */
export interface NodeSeen extends MarksSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  /** The reason why it is to be fenced; undefined where neither it nor its Machine has a mark that counts. */
  readonly mark: string | undefined;
  /** The Node excludes itself, or says so in a way that does not parse. */
  readonly isNever: boolean;
  /** The fence that a person or a tool has confirmed. */
  readonly confirmed: string | undefined;
  readonly bootId: string;
  readonly systemUuid: string;
  readonly isReady: boolean;
  /** Its condition Ready is True or False: a kubelet has reported it, and Kubernetes has not found that silent. */
  readonly isReporting: boolean;
  /** Its condition Ready is Unknown: its kubelet has fallen silent. */
  readonly isUnknown: boolean;
  /** Since when it is in that state, in milliseconds since the epoch; undefined where the condition has no time. */
  readonly unknownSinceMs: number | undefined;
  readonly isInMaintenance: boolean;
  readonly hasFenceTaint: boolean;
  /** It has our taint also with the effect NoExecute. */
  readonly isEmptied: boolean;
  /** Which client has put the taint `out-of-service` on it; undefined where it has none. */
  readonly outOfService: "ours" | "others" | undefined;
  /** The key of a taint by which another tool fences it; undefined where there is none. */
  readonly foreignFence: string | undefined;
  /** What it says of its fence, for people. */
  readonly shown: ShownFence;
}

export interface ShownFence {
  readonly fenceId: string | undefined;
  readonly phase: string | undefined;
  readonly hold: string | undefined;
}

/** The record of one fence. */
export interface RecordSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly fenceId: string;
  readonly phase: FencePhase;
  /** Since when it is in that phase, in milliseconds since the epoch, by the API server's clock. */
  readonly sinceMs: number;
  /** The boot and the machine that are to be stopped. */
  readonly bootId: string;
  readonly systemUuid: string;
  readonly hold: string | undefined;
  readonly agent: NotedAgent | undefined;
  readonly evidence: FenceEvidence | undefined;
  /** Present from before the Node is deleted until it is there again. */
  readonly backup?: NodeBackup;
  /** Since when its Node is given back and claims of it have to settle, by the same clock; undefined before that. */
  readonly settlingMs: number | undefined;
}

/** The Lease of the agent on the node. */
export interface AgentSeen {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Undefined where it says none that is known. */
  readonly mode: AgentMode | undefined;
  readonly why: string | undefined;
  readonly bootId: string | undefined;
  /** Times of its permit and its watchdog, in milliseconds; undefined where the Lease does not say them. */
  readonly permitMs: number | undefined;
  readonly watchdogMs: number | undefined;
  /** Empty where it has none, or a list that does not parse or names its own node. */
  readonly peers: readonly Peer[];
  /** Undefined where none are proposed, or a list that does not parse. */
  readonly proposed: readonly Peer[] | undefined;
  readonly armed: ArmedFence | undefined;
}

export interface FenceSnapshot {
  /** The API server's clock, in milliseconds since the epoch. */
  readonly nowMs: number;
  readonly name: string;
  /** Undefined where it is gone. */
  readonly node: NodeSeen | undefined;
  /** `unreadable`: there is one that this version cannot read. */
  readonly record: RecordSeen | "unreadable" | undefined;
  readonly agent: AgentSeen | undefined;
  /** What time shows of an armed fence; undefined where it is no evidence for it. */
  readonly time: TimeView | undefined;
  /** The peers that the agent should have; undefined where it has them, or where this process does not know it. */
  readonly proposal: readonly Peer[] | undefined;
  /** Pods that are bound to the node and have to go, and VolumeAttachments of it. Empty where they need not be known. */
  readonly bound: readonly string[];
  readonly brakes: BrakesView;
  /** What a deletion of the Node rests on; absent where there is no Node. */
  readonly deletion?: DeletionView | undefined;
  /** The API server has refused in this reconcile a step about the Node itself, or about its Machine; absent: it has not. */
  readonly isRefused?: boolean;
  /** A ledger has refused in this reconcile that claims get the phase `returned`; absent: none has. */
  readonly isReturnRefused?: boolean;
  /** The claims of fences of the node; undefined where they need not be known. */
  readonly ledgers: LedgersSeen | undefined;
  /** The id of a fence that begins now. */
  readonly newFenceId: string;
}

/** A write of the Lease of the slots, under the version that was read; without one it is made. */
export interface SlotsStep {
  readonly kind: "take-slot" | "release-slot" | "note-storm";
  readonly lease: SlotsSeen["lease"];
  readonly contents: FenceSlots;
}

export type FenceStep =
  | SlotsStep
  | LedgerStep
  | { readonly kind: "note-settling"; readonly record: RecordSeen }
  | { readonly kind: "claim"; readonly node: NodeSeen }
  | { readonly kind: "taint"; readonly node: NodeSeen; readonly record: RecordSeen }
  | { readonly kind: "note-agent"; readonly record: RecordSeen; readonly agent: AgentSeen }
  | { readonly kind: "arm"; readonly record: RecordSeen; readonly agent: AgentSeen }
  | {
      readonly kind: "enter";
      readonly record: RecordSeen;
      readonly phase: FencePhase;
      readonly evidence?: FenceEvidence;
      /** What the Node can be made again from: it comes into the record. */
      readonly backup?: NodeBackup;
      /** Absent: nothing holds the fence in its new phase. */
      readonly hold?: string;
    }
  | { readonly kind: "note-hold"; readonly record: RecordSeen; readonly hold: string | undefined }
  | { readonly kind: "show"; readonly node: NodeSeen; readonly shown: ShownFence }
  | { readonly kind: "set-out-of-service"; readonly node: NodeSeen; readonly fenceId: string }
  | { readonly kind: "remove-out-of-service"; readonly node: NodeSeen }
  | { readonly kind: "empty-node"; readonly node: NodeSeen }
  | { readonly kind: "fence-again"; readonly record: RecordSeen; readonly node: NodeSeen }
  | { readonly kind: "delete-node"; readonly backup: NodeBackup }
  | { readonly kind: "restore-node"; readonly backup: NodeBackup; readonly fenceId: string }
  | { readonly kind: "complete-node"; readonly node: NodeSeen; readonly lack: NodePatch; readonly fenceId: string }
  | { readonly kind: "clean-node"; readonly node: NodeSeen; readonly keepsMark: boolean }
  | { readonly kind: "unmark-machine"; readonly machine: MachineSeen }
  | { readonly kind: "disarm"; readonly agent: AgentSeen }
  | { readonly kind: "propose"; readonly agent: AgentSeen; readonly peers: readonly Peer[] }
  | { readonly kind: "end"; readonly record: RecordSeen };

export interface FenceVerdict {
  /** A stable name: a phase, or what the fence waits for. */
  readonly guard: string;
  readonly message: string;
  readonly step: FenceStep | undefined;
  readonly requeueAfterMs: number | undefined;
  /** What holds the fence, for the record and the Node; absent: nothing does. */
  readonly hold?: string;
}
