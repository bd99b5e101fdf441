/** What a table itself has under a name: a name may be `constructor`, which every object has. */
export const own = <T>(table: Record<string, T>, key: string): T | undefined =>
  Object.hasOwn(table, key) ? table[key] : undefined;
