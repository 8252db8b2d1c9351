/** What the brakes of a fence see: the Lease of the slots, all nodes, and pods that cannot go. Pure. */

import { type FenceSlots, noSlots } from "../shared/annotations/fencing-slots.ts";
import type { BrakeSettings } from "./brake-settings.ts";

/** The Lease `fence-slots`. */
export interface SlotsSeen {
  /** The version that a write rests on; undefined where there is no Lease. */
  readonly lease: { readonly uid: string; readonly resourceVersion: string } | undefined;
  /** `unreadable`: there is a text that this version cannot read. */
  readonly contents: FenceSlots | "unreadable";
}

/** One of all nodes. */
export interface ClusterNode {
  readonly name: string;
  readonly isReady: boolean;
  readonly isMarked: boolean;
  readonly isControlPlane: boolean;
  /** A fence of it has not ended. */
  readonly hasRecord: boolean;
}

export interface BrakesView {
  readonly settings: BrakeSettings;
  readonly slots: SlotsSeen;
  /** The ids of fences in the Lease that have evidence or have ended, so that their slots are free. */
  readonly ended: ReadonlySet<string>;
  /** All nodes; undefined where they need not be known. */
  readonly nodes: readonly ClusterNode[] | undefined;
  /** Pods that are bound to a node that is back and do not tolerate the taint of a fence. Empty where they need not be known. */
  readonly stranded: readonly string[];
}

export const missingSlots: SlotsSeen = { lease: undefined, contents: noSlots };
