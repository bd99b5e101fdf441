// Files that lie beside the page: its script, style and fonts, words, lessons.

export async function load(address: string): Promise<Response> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(address);
  return answer;
}
