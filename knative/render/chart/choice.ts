/** The choices of a chart's user: functions and presets, each with its rights, as data for the templates. */
import type { AdmissionDefinition } from "../../../functions/shared/admission/definition.ts";
import type { Definition, Need } from "../../../functions/shared/contract/definition.ts";
import { isClusterScoped, resources } from "../../../functions/shared/kubernetes/cluster.ts";
import { watchNeed } from "../events.ts";
import { exceptionsOf, formatKind } from "../kinds.ts";
import { allOf, type Functions } from "../manifests.ts";
import { pluginNeeds, ruleOf, tlsPortNeeds, union } from "../rights.ts";

export interface Choices {
  readonly presets: Readonly<Record<string, readonly Definition[]>>;
  /** The functions that every choice has. */
  readonly alwaysServed: readonly Definition[];
}

/** Rules of Roles, of a ClusterRole, and of the ClusterRole for what is called after a namespace. */
interface Rights {
  /** In each namespace that is served. */
  readonly role: readonly object[];
  /** In the namespace of the process, which has the certificate. */
  readonly processRole: readonly object[];
  readonly clusterRole: readonly object[];
  /** The template takes those of their `resourceNames` whose webhook is chosen, and appends `-` and a served namespace. */
  readonly ownWebhooks: readonly object[];
}

interface ChosenFunction extends Rights {
  readonly name: string;
  readonly concern: string;
  /** As a webhook configuration is called, with `-` and the namespace after it; absent: it answers no reviews. */
  readonly webhook?: string;
  /** The settings that are `remove` before an uninstall; absent: the function puts no finalizer on anything. */
  readonly finalizerSettings?: readonly string[];
}

/** The contents of `files/functions.yaml`, in the order of the table. */
export interface ChoiceData {
  readonly alwaysServed: readonly string[];
  readonly presets: Readonly<Record<string, readonly string[]>>;
  /** Kinds of no namespace, as the lists of kinds have them: none of these can be listed. */
  readonly ofCluster: readonly string[];
  /** API groups whose kinds get no rights to a subresource, by `LIST/SUBRESOURCE`. */
  readonly exceptGroups: Readonly<Record<string, readonly string[]>>;
  /** Of the TLS port itself and of the plugin, whichever functions are chosen. */
  readonly port: Rights;
  readonly functions: readonly ChosenFunction[];
}

/** The data of the chart. Throws Error for a right with a wildcard, and for a preset with a function that is not in the table. */
export function choiceData(functions: Functions, { presets, alwaysServed }: Choices): ChoiceData {
  const all = allOf(functions);
  const known = new Set(all.map(({ name }) => name));
  const namesOf = (definitions: readonly Definition[]) =>
    definitions.map(({ name }) => {
      if (!known.has(name)) throw new Error(`a preset has ${name}, which is not in the table of functions`);
      return name;
    });
  return {
    alwaysServed: namesOf(alwaysServed),
    presets: Object.fromEntries(Object.entries(presets).map(([preset, chosen]) => [preset, namesOf(chosen)])),
    ofCluster: Object.entries(resources)
      .filter(([, { isNamespaced }]) => !isNamespaced)
      .map(([plural, { group }]) => formatKind({ plural, group })),
    exceptGroups: exceptionsOf(all.flatMap(({ kindNeeds = [] }) => kindNeeds)),
    // The plugin reads what is served, wherever that is.
    port: { ...rightsFrom(tlsPortNeeds, "processRole"), role: rightsFrom(pluginNeeds, "role").role },
    functions: all.map((definition) => {
      const { name, concern, needs, finalizers = [] } = definition;
      const settings = [...new Set(finalizers.map(({ setting }) => setting.name))];
      const watched = "keyedBy" in definition ? definition.watches.map(watchNeed) : [];
      const webhook = "registration" in definition ? { webhook: definition.registration.webhook } : {};
      const finalizerSettings = settings.length === 0 ? {} : { finalizerSettings: settings };
      const isOfCron = functions.cronFunctions.some((cron) => cron.name === name);
      const rights = rightsFrom([...needs, ...watched], isOfCron ? "processRole" : "role");
      return { name, concern, ...webhook, ...finalizerSettings, ...rights };
    }),
  };
}

/** @param place the Role with the rights in a namespace: a function of cron acts where its process is */
function rightsFrom(needs: readonly Need[], place: "role" | "processRole"): Rights {
  const all = union(needs);
  const ofCluster = all.filter(isClusterScoped);
  const bare = (need: Need) => ruleOf(need, (name) => name);
  const ofNamespace = all.filter((need) => !isClusterScoped(need)).map(bare);
  return {
    role: place === "role" ? ofNamespace : [],
    processRole: place === "processRole" ? ofNamespace : [],
    clusterRole: ofCluster.filter(({ namesOfNamespace }) => namesOfNamespace === undefined).map(bare),
    ownWebhooks: ofCluster.filter(({ namesOfNamespace }) => namesOfNamespace !== undefined).map(bare),
  };
}

/** The name of a webhook as a value of the chart, after the operator's chart: `podEviction` for `pod-eviction`. */
export function valueNameOf({ registration: { webhook } }: AdmissionDefinition): string {
  return webhook.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
