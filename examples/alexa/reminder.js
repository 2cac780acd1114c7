exports.main = ({ words }) => {
  const about = words.slice(words.indexOf('to') + 1).join(' ');
  return { speech: `I will remind you to ${about}.`, reminder: about };
};
