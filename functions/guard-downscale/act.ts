/** The way of one review: what becomes smaller, what is stored of it, and the answer. What is not known holds nobody back. */
import { messageOf } from "../shared/kubernetes/errors.ts";
import type { AdmissionAnswer, AdmissionRequest, Allowed, Context, Judge } from "../shared/pass/definition.ts";
import { allow, inShadow } from "../shared/review/answers.ts";
import { Deadlines } from "../shared/review/deadlines.ts";
import { type Downscale, readDownscale, type SizedObject } from "../shared/review/size-review.ts";
import { decide } from "./decide.ts";
import { observe } from "./observe.ts";

type Stored = SizedObject["metadata"];

/** Judges the reviews of one process. */
export function createJudge(context: Context): Judge {
  const deadlines = new Deadlines(context.cluster);
  return {
    review: async (request) => {
      const answer = await review(context, deadlines, request);
      return answer.allowed || context.mode === "act" ? answer : inShadow(answer);
    },
  };
}

async function review(context: Context, deadlines: Deadlines, request: AdmissionRequest): Promise<AdmissionAnswer> {
  const change = readDownscale(request);
  if ("allowed" in change) return change;
  const stored = change.old?.metadata ?? (await lookUpInTime(context, deadlines, change, request.deadlineMs));
  if ("allowed" in stored) return stored;
  return decide(observe(change, request, stored));
}

/** What a scale belongs to. An answer that came too late would count as none, and hold back what is to go through. */
async function lookUpInTime(
  { cluster, lookUps = cluster }: Context,
  deadlines: Deadlines,
  change: Downscale,
  deadlineMs: number,
): Promise<Stored | Allowed> {
  const { resource, namespace, name } = change;
  const { promise, resolve } = Promise.withResolvers<Stored | Allowed>();
  const goesThrough = (why: string) => {
    const sentence = `${resource}/${name} could not be looked up, so that its labels are not known, and it goes through: ${why}`;
    resolve(allow("object-unknown", { warnings: [sentence] }));
  };
  const waiting = { deadlineMs, late: () => goesThrough("no answer came in time") };
  deadlines.add(waiting);
  lookUps.get(resource, { namespace, name }, { notAfterMs: deadlineMs }).then(
    ({ metadata }) => resolve(metadata),
    (error) => goesThrough(messageOf(error)),
  );
  try {
    return await promise;
  } finally {
    deadlines.delete(waiting);
  }
}
