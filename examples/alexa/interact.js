const { call } = require('./skill');

const SKILLS = [['fact', ['fact', 'tell']], ['reminder', ['remind', 'remember']], ['smarthome', ['light', 'door', 'turn', 'open']]];

exports.main = async ({ words }) => {
  const found = SKILLS.find(([, known]) => known.some((word) => words.includes(word)));
  if (!found) return { speech: `I do not know what to do with "${words.join(' ')}".` };
  return call(found[0], { words });
};
