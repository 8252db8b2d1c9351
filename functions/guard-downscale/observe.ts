/** What a review says of a downscale, and what is stored of the object. Nothing that a review brings is trusted. */
import { type Fields, fieldsOf } from "../shared/objects/fields.ts";
import { isLed, parseScaling, type Scaling } from "../shared/objects/scaling/scaling.ts";
import { noDownscale } from "../shared/objects/vocabulary/scaling.ts";
import { lastApplied, read } from "../shared/objects/vocabulary.ts";
import type { AdmissionRequest } from "../shared/pass/definition.ts";
import type { Downscale, SizedObject } from "../shared/review/size-review.ts";
import type { DownscaleSnapshot, Owner, Written } from "./decide.ts";

export const name = "guard-downscale";

const shownCharacters = 60;

/** What is asked for, and how the numbers came about. `stored` is the object, or what a scale belongs to, as it is stored. */
export function observe(
  change: Downscale,
  request: AdmissionRequest,
  stored: SizedObject["metadata"],
): DownscaleSnapshot {
  const { old, object } = change;
  const [before, after] = [old, object].map((one) => (one === undefined ? undefined : parseScaling(one.metadata)));
  return {
    change,
    isProtected: read(noDownscale, stored) === true,
    // Who takes its size in hand and leaves the number out does both with one manifest.
    care: careOf(after) || careOf(before),
    isLed: after !== undefined && isLed(after),
    old: writtenOf(old, request.oldObject),
    now: writtenOf(object, request.object),
  };
}

function careOf(scaling: Scaling | undefined): string {
  const { leader, mirrored, delay, preparesDownscale = false } = scaling ?? {};
  if (leader !== undefined) return `follows ${shown(leader)}`;
  if (mirrored !== undefined) return `mirrors ${shown(mirrored.kind)} ${shown(mirrored.name)}`;
  if (delay !== undefined) return "has its pods told some time before they go";
  return preparesDownscale ? "has its pods told before they go" : "";
}

function writtenOf(object: SizedObject | undefined, raw: unknown): Written {
  const { managedFields } = fieldsOf(fieldsOf(raw)?.metadata) ?? {};
  const said: readonly unknown[] = Array.isArray(managedFields) ? managedFields : [];
  const entries = said.map(fieldsOf).filter((entry) => entry !== undefined);
  const isTold = entries.some(({ fieldsV1 }) => fieldsOf(fieldsV1) !== undefined);
  return {
    owners: isTold ? entries.flatMap(ownerOf) : undefined,
    isSaid: object === undefined ? undefined : read(lastApplied, object.metadata),
  };
}

/** One who owns `spec.replicas`, or nobody. */
function ownerOf({ manager, operation, fieldsV1 }: Fields): Owner[] {
  const spec = fieldsOf(fieldsOf(fieldsV1)?.["f:spec"]) ?? {};
  if (!Object.hasOwn(spec, "f:replicas")) return [];
  return [
    {
      manager: typeof manager === "string" && manager !== "" ? shown(manager) : "somebody",
      isApply: operation === "Apply",
      ownsTemplate: Object.hasOwn(spec, "f:template"),
    },
  ];
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, shownCharacters));
}
