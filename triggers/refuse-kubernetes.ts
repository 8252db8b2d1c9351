/** Whether the API server is new enough for the functions of this process. Pure. */

import type { Definition } from "../functions/shared/contract/definition.ts";
import type { KubernetesVersion } from "../functions/shared/kubernetes/client.ts";

/**
 * One message for each function that must not run on this version; none where all of them may. A version that is malformed
 * counts as too old, because what a function needs of a newer one may be missing.
 */
export function refuseKubernetes(
  definitions: readonly Pick<Definition, "name" | "leastKubernetes">[],
  { major = "", minor = "" }: KubernetesVersion,
): readonly string[] {
  const [, found] = /^1 (\d+)\+?$/.exec(`${major} ${minor}`) ?? [];
  const reported = found === undefined ? `reports the version "${major}.${minor}"` : `is of version ${major}.${minor}`;
  return definitions.flatMap(({ name, leastKubernetes }) => {
    const isNewEnough = leastKubernetes === undefined || Number(found) >= Number(leastKubernetes.slice("1.".length));
    return isNewEnough
      ? []
      : [`${name} needs Kubernetes ${leastKubernetes} or newer, and the API server ${reported}: it does not start`];
  });
}
