/** A claim as the text of the ledger has it, without the product's code. */

export interface Raw {
  readonly id: string;
  readonly kind: string;
  readonly zone: string;
  readonly by?: string;
  readonly members?: string;
  readonly uids?: Readonly<Record<string, string>>;
  readonly containers?: Readonly<Record<string, readonly string[]>>;
  readonly processes?: Readonly<Record<string, string>>;
  readonly terms?: string;
  readonly anchor?: {
    readonly resource: "pods" | "leases" | "persistentvolumeclaims";
    readonly namespace?: string;
    readonly name: string;
    readonly annotation?: string;
  };
  readonly line: string;
}

/** A claim without members is of a kind that this version does not know, and counts for its whole zone. */
export function names({ members }: Raw, ordinal: number): boolean {
  if (members === undefined) return true;
  return members.split(",").some((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return ordinal >= first && ordinal <= last;
  });
}

/** Those of a small zone that a claim names. */
export function ordinalsOf(claim: Raw): number[] {
  return Array.from({ length: 20 }, (_, ordinal) => ordinal).filter((ordinal) => names(claim, ordinal));
}
