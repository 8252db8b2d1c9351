/** What the trials of fences measure, and how long each stretch may take. */

/**
 * - `silent`: the node is cut off from all, and is marked once Kubernetes shows its Node as Unknown, as health checkers do it.
 * - `silent-at-once`: it is cut off and marked in the same moment, as by a tool that knows more than Kubernetes.
 * - `returning`: it is marked while it can be reached. It resets itself, and starts again.
 */
export const fenceCases = ["silent", "silent-at-once", "returning"] as const;
export type FenceCase = (typeof fenceCases)[number];

/** The stretches of one fence, in milliseconds; undefined where the case has no such stretch. */
export interface FenceFigures {
  /** From the cut to the Node's condition Ready that is Unknown. */
  readonly cutToUnknownMs: number | undefined;
  /** From the mark to the write that arms the fence. */
  readonly markToArmedMs: number;
  /** To the reset of the machine by its watchdog: of a silent node, which needs no fence for it. */
  readonly cutToResetMs: number | undefined;
  /** The same of a node that can be reached, which learns of the fence. */
  readonly armedToResetMs: number | undefined;
  /** Of a silent node: time is the evidence. */
  readonly armedToEvidenceMs: number | undefined;
  /** Of a node that is back: its new boot is the evidence. */
  readonly statusToEvidenceMs: number | undefined;
  /** From the evidence to the taint that has Kubernetes delete the pods. */
  readonly evidenceToTaintMs: number | undefined;
  /** To the pod that takes the place of the old one: it comes when the old one is gone. */
  readonly taintToReplacedMs: number | undefined;
  readonly replacedToReadyMs: number | undefined;
  readonly markToReadyElsewhereMs: number | undefined;
  /** From the first status of the kubelet that is back to the end of the fence. */
  readonly statusToCleanMs: number;
}

export interface FenceTrial {
  readonly fenceCase: FenceCase;
  readonly node: string;
  /** Load of the machine in the minute before it began. */
  readonly load: number;
  readonly figures: FenceFigures | undefined;
  /** Why there are no figures. */
  readonly failure: string | undefined;
}

export interface FenceRow {
  readonly label: string;
  readonly value: (figures: FenceFigures) => number | undefined;
  /** More than this breaks a promise, in seconds. */
  readonly atMost?: number;
}

/** In the order in which they happen. */
export const fenceRows: readonly FenceRow[] = [
  { label: "from the cut until the Node is Unknown", value: ({ cutToUnknownMs }) => cutToUnknownMs },
  { label: "from the cut until its watchdog has reset it", value: ({ cutToResetMs }) => cutToResetMs },
  { label: "from the mark until the fence is armed", value: ({ markToArmedMs }) => markToArmedMs },
  { label: "from armed until its watchdog has reset it", value: ({ armedToResetMs }) => armedToResetMs },
  {
    label: "from armed until time is evidence",
    value: ({ armedToEvidenceMs }) => armedToEvidenceMs,
    atMost: 75,
  },
  {
    label: "from its kubelet's first status until there is evidence",
    value: ({ statusToEvidenceMs }) => statusToEvidenceMs,
    atMost: 5,
  },
  { label: "from the evidence until the taint out-of-service", value: ({ evidenceToTaintMs }) => evidenceToTaintMs },
  { label: "from the taint until the old pod is replaced", value: ({ taintToReplacedMs }) => taintToReplacedMs },
  { label: "from there until the new pod is Ready", value: ({ replacedToReadyMs }) => replacedToReadyMs },
  {
    label: "from the mark until the pod is Ready on another node",
    value: ({ markToReadyElsewhereMs }) => markToReadyElsewhereMs,
    atMost: 110,
  },
  {
    label: "from its kubelet's first status until nothing of the fence is left",
    value: ({ statusToCleanMs }) => statusToCleanMs,
  },
];
