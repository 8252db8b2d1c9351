/** The labels and annotations for the sizes of StatefulSets, spelled as rollout-operator's users already write them. */

import { parseGoBoolean, parsePrometheusDuration, parseTime } from "../clock/durations.ts";
import { mostEntries } from "./bounds.ts";
import { annotationOn, anyText, labelOn, nonNegativeDuration } from "./entry.ts";

/** Only this word means yes, and any other value means no. */
const isTrue = (text: string): boolean => text === "true";

const onStatefulSet = annotationOn("StatefulSet");
const labelOfStatefulSet = labelOn("StatefulSet");

const largestReplicas = 2 ** 31 - 1;

function parseReplicas(text: string): number | undefined {
  const replicas = /^\+?\d{1,20}$/.test(text) ? Number(text) : Number.NaN;
  return replicas <= largestReplicas ? replicas : undefined;
}

/** The group of `group/version`; the version is ignored, and a version alone is of the core group. */
function parseApiGroup(text: string): string | undefined {
  const parts = text.split("/");
  if (parts.length > 2) return undefined;
  return parts.length === 2 ? parts[0] : "";
}

/** Such as `4,6-49`; undefined if a part is no ordinal and no range of them, and if there are too many. */
function parseOrdinals(text: string): readonly { readonly first: number; readonly last: number }[] | undefined {
  const texts = text.split(",", mostEntries + 1);
  if (texts.length > mostEntries) return undefined;
  const parts = texts.map((part) => /^\s*(\d{1,10})(?:-(\d{1,10}))?\s*$/.exec(part));
  const ranges = parts.flatMap((part) => {
    const [first, last] = [Number(part?.[1]), Number(part?.[2] ?? part?.[1])];
    return first <= last ? [{ first, last }] : [];
  });
  return ranges.length === parts.length ? ranges : undefined;
}

export const downscaleLeader = onStatefulSet("grafana.com/rollout-downscale-leader", anyText, {
  grammar: "the name of another StatefulSet of the same group",
  fallback: "it follows no other",
  meaning: "its replicas follow those of the StatefulSet of that name",
});

export const upscaleOnlyWhenLeaderReady = onStatefulSet("grafana.com/rollout-upscale-only-when-leader-ready", isTrue, {
  grammar: "true or false",
  fallback: "false",
  meaning: "it is made larger only while all pods of its leader are ready",
});

export const minTimeBetweenZonesDownscale = labelOfStatefulSet(
  "grafana.com/min-time-between-zones-downscale",
  nonNegativeDuration,
  {
    grammar: "a Go duration, such as 12h or 1h30m",
    fallback:
      "absent: the webhook prepare-downscale keeps no time after this zone, and a follower stays as large as it is after another zone; malformed: a zone is not made smaller after another one was",
    meaning: "how long after a downscale of one zone of the group the next one may be made smaller",
  },
);

export const lastDownscale = onStatefulSet("grafana.com/last-downscale", parseTime, {
  grammar: "a time as in RFC 3339, such as 2026-01-31T12:00:00Z",
  fallback: "absent: it was never made smaller; malformed: no other zone is",
  meaning: "when it was last made smaller",
});

export const mirrorName = onStatefulSet("grafana.com/rollout-mirror-replicas-from-resource-name", anyText, {
  grammar: "the name of an object in the namespace of the StatefulSet",
  fallback: "it mirrors nothing",
  meaning: "its replicas follow the scale of the object of that name",
});

export const mirrorKind = onStatefulSet("grafana.com/rollout-mirror-replicas-from-resource-kind", anyText, {
  grammar: "a kind that has a scale subresource",
  fallback: "it mirrors nothing",
  meaning: "of which kind the object is that it mirrors",
});

export const mirrorApiVersion = onStatefulSet(
  "grafana.com/rollout-mirror-replicas-from-resource-api-version",
  parseApiGroup,
  {
    grammar: "group/version, or a version of the core group",
    fallback:
      "absent: apps for StatefulSet and Deployment, or else the core group; malformed: its replicas stay as they are",
    meaning: "of which API group that kind is; any version of it will do",
  },
);

export const mirrorWriteBack = onStatefulSet(
  "grafana.com/rollout-mirror-replicas-from-resource-write-back",
  parseGoBoolean,
  {
    grammar: "a Go boolean: 1, t, T, TRUE, true, True, 0, f, F, FALSE, false, False",
    fallback: "absent: true; malformed: false",
    meaning: "whether its replicas are written to the status of the object that it mirrors",
  },
);

export const forceReplicas = onStatefulSet("grafana.com/rollout-force-replicas", parseReplicas, {
  grammar: "an integer from 0 to 2147483647",
  fallback: "what it follows or mirrors is taken",
  meaning: "its replicas, whatever it follows or mirrors says",
});

export const delayedDownscale = onStatefulSet("grafana.com/rollout-delayed-downscale", parsePrometheusDuration, {
  grammar: "a Prometheus duration, such as 2h or 1d12h, or 0",
  fallback: "absent: a downscale has no delay; malformed: its replicas stay as they are",
  meaning: "how long before they go its pods must have been told",
});

export const prepareDelayedDownscaleUrl = onStatefulSet("grafana.com/rollout-prepare-delayed-downscale-url", anyText, {
  grammar: "a URL of http or https, whose host is replaced by the pod's own",
  fallback: "absent: a downscale has no delay; malformed: its replicas stay as they are",
  mayContainSecret: true,
  meaning: "where a pod is told that it is going to leave (POST), or to stay after all (DELETE)",
});

export const prepareDownscale = labelOfStatefulSet("grafana.com/prepare-downscale", isTrue, {
  grammar: "true or false",
  fallback: "false",
  meaning: "each pod is told before it leaves, and the downscale is refused where one does not confirm",
});

export const prepareDownscalePath = onStatefulSet("grafana.com/prepare-downscale-http-path", anyText, {
  grammar: "a path, such as ingester/prepare-shutdown",
  fallback: "no downscale is let through",
  meaning: "at which path a pod is told that it is going to leave",
});

export const prepareDownscalePort = onStatefulSet("grafana.com/prepare-downscale-http-port", anyText, {
  grammar: "a port from 1 to 65535",
  fallback: "no downscale is let through",
  meaning: "at which port a pod is told that it is going to leave",
});

export const unpreparedPods = onStatefulSet("sluice.dev/unprepared-pods", parseOrdinals, {
  grammar: "ordinals and ranges of them, such as 4,6-49",
  fallback: "each pod that leaves must have said that it may",
  meaning: "at these ordinals a pod that is missing, or was never ready, may leave though Sluice could not tell it",
});

export const noDownscale = labelOfStatefulSet("grafana.com/no-downscale", isTrue, {
  grammar: "true or false",
  fallback: "false",
  meaning: "a downscale is refused; on Deployments and ReplicaSets as well",
});

/** The settings by which a StatefulSet follows or mirrors. */
export const followingEntries = [
  downscaleLeader,
  upscaleOnlyWhenLeaderReady,
  minTimeBetweenZonesDownscale,
  lastDownscale,
  mirrorName,
  mirrorKind,
  mirrorApiVersion,
  forceReplicas,
] as const;
export const scalingEntries = [
  ...followingEntries,
  mirrorWriteBack,
  delayedDownscale,
  prepareDelayedDownscaleUrl,
  prepareDownscale,
  prepareDownscalePath,
  prepareDownscalePort,
  unpreparedPods,
  noDownscale,
] as const;
