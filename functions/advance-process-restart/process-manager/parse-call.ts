/** What a call must look like. */
import { parseFields } from "../../shared/base/fields.ts";
import type { ProcessCall, ProcessVerb } from "./decide-call.ts";

/** The most bytes of the body of a call. */
export const mostCallBytes = 4 * 1024;
const longestName = 200;
const namePattern = /^[\w.:/-]+$/;
/** A sum of a later method is one that no file has. */
const anySumPattern = /^\d{1,3}:[\da-f]{8,128}$/;

const isName = (value: unknown): value is string =>
  typeof value === "string" && value.length <= longestName && namePattern.test(value);

/** The call, or what is wrong with its body. Fields of later versions are ignored. */
export function parseCall(verb: ProcessVerb, body: string): ProcessCall | string {
  const fields = parseFields(body);
  if (fields === undefined) return "the body must be an object in JSON";
  const { podUid, restartId, epoch, configChecksum = undefined } = fields;
  if (!isName(podUid)) return "podUid must be the uid of the pod";
  if (!isName(restartId)) return `restartId must be an id of at most ${longestName} letters, digits, and ._:/-`;
  if (!Number.isSafeInteger(epoch) || Number(epoch) < 1) return "epoch must be a whole number from 1 on";
  if (configChecksum !== undefined && !(typeof configChecksum === "string" && anySumPattern.test(configChecksum))) {
    return "configChecksum must be a sum, such as 1: and 64 hex digits";
  }
  return { verb, podUid, restartId, epoch: Number(epoch), sum: configChecksum };
}
